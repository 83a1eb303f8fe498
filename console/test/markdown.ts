// Markdown as HTML text, in the form that the examples of the CommonMark specification have.
import { h } from "preact";
import { renderToString } from "preact-render-to-string";
import { Markdown } from "../src/parts/markdown";

/** The page's own HTML for this text. */
export function html(text: string): string {
  return renderToString(h(Markdown, { text }));
}

/** The page's HTML without what the page adds: the frame around code, the levels of headings, where links open. */
export function plainHtml(text: string): string {
  const inner = html(text).replace(/^<div class="md" aria-busy="false">(.*)<\/div>$/s, "$1");
  const code = /<figure class="code"><figcaption[^>]*><span class="grow">(.*?)<\/span>.*?<\/figcaption><pre tabindex="0"><code>(.*?)<\/code><\/pre><\/figure>/gs;
  return normal(
    inner
      .replace(code, (_, language: string, lines: string) => `<pre><code${language && ` class="language-${language}"`}>${lines.replace(/<\/?span[^>]*>/g, "")}</code></pre>`)
      .replace(/<h\d class="md-h(\d)">(.*?)<\/h\d>/gs, "<h$1>$2</h$1>")
      .replace(/<p class="md-h4">(.*?)<\/p>/gs, "<h>$1</h>")
      .replaceAll(' target="_blank" rel="noopener noreferrer"', "")
      .replaceAll(' dir="auto"', "")
      .replaceAll('<ol start="1">', "<ol>"),
  );
}

/** An example of the specification as the page shows it: it makes no link without a web address, and no image. */
export function expectedHtml(example: string): string {
  const image = (_: string, address: string, alt: string, title = "") => {
    const name = `Image: ${alt || "untitled"}`;
    return /^https?:/.test(address) ? `<a href="${address}"${title}>${name}</a>` : name;
  };
  const link = (whole: string, address: string, text: string) =>
    /^(https?|mailto):/i.test(address) ? whole : `${text}${address && text !== address ? ` (${address})` : ""}`;
  return normal(
    example
      // A heading inside another block is not one of the page's headings.
      .replace(/(?<=<(?:blockquote|li)>\s*)<h\d>(.*?)<\/h\d>/g, "<h>$1</h>")
      .replace(/<img src="([^"]*)" alt="([^"]*)"( title="[^"]*")? \/>/g, image)
      .replace(/<a href="([^"]*)"(?: title="[^"]*")?>(.*?)<\/a>/gs, link),
  );
}

/** Without the differences that no browser shows. */
function normal(markup: string): string {
  return decoded(markup)
    .replaceAll("&quot;", '"')
    .replaceAll("&gt;", ">")
    .replaceAll("\n</code></pre>", "</code></pre>")
    .replace(/ ?\/>/g, ">")
    .replace(/\s*(<\/?(?:p|h\d?|ul|ol|li|blockquote|pre|hr|div|br)\b[^>]*>)\s*/g, "$1")
    .replace(/[ \t]*\n[ \t]*/g, "\n")
    .trim();
}

/** Addresses with their characters as they are: the browser encodes them itself. */
function decoded(markup: string): string {
  return markup.replace(/(?:%[0-9A-F]{2})+/gi, (bytes) => {
    try {
      return decodeURIComponent(bytes);
    } catch {
      return bytes;
    }
  });
}
