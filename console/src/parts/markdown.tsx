// Renders a model's Markdown. The page creates each element itself; no text becomes HTML.
import { Component, type ComponentChild } from "preact";
import { useRef } from "preact/hooks";
import { Code } from "./code";
import { Formula } from "./math";
import { GrowingText, unescaped, type Block, type MarkedToken, type Tokens } from "./lexer";
import "../styles/parts.css";

const SAFE_ADDRESS = /^(https?:|mailto:)/i;
const IMAGE_DATA = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=]+$/i;

/** `busy` while more text is to come. The page loads nothing: only images in the text itself are shown, others are links. */
export function Markdown({ text, busy = false }: { text: string; busy?: boolean }) {
  const growing = useRef<GrowingText | null>(null);
  growing.current ??= new GrowingText();
  const blocks = growing.current.read(text);
  const levels = headingLevels(blocks.map(({ token }) => token));
  return (
    <div class="md" aria-busy={busy}>
      {blocks.map((block, at) => (
        <TopBlock block={block} level={levels[at] ?? 0} />
      ))}
    </div>
  );
}

/** Heading levels from 2 that never skip one, even where the text does. 0 for a token that is no heading. */
export function headingLevels(tokens: readonly MarkedToken[]): number[] {
  const above: number[] = [];
  return tokens.map((token) => {
    if (token.type !== "heading") return 0;
    while ((above.at(-1) ?? 0) >= token.depth) above.pop();
    return Math.min(6, above.push(token.depth) + 1);
  });
}

interface TopBlockProps {
  block: Block;
  level: number;
}

/** Renders again only when its text changes: while an answer streams, only its end does. */
class TopBlock extends Component<TopBlockProps> {
  override shouldComponentUpdate({ block, level }: TopBlockProps): boolean {
    return block.key !== this.props.block.key || level !== this.props.level;
  }

  override render({ block, level }: TopBlockProps) {
    return rendered(block.token, level);
  }
}

/** One token. A heading inside another block has level 0: it is not one of the page's headings. */
function rendered(token: MarkedToken, level = 0, inLink = false): ComponentChild {
  switch (token.type) {
    case "paragraph":
      return <p>{children(token)}</p>;
    case "heading": {
      if (!level) return <p class="md-h4">{children(token)}</p>;
      const Heading = `h${level}` as "h2";
      return <Heading class={`md-h${token.depth}`}>{children(token)}</Heading>;
    }
    case "code":
      return <Code text={token.text} language={unescaped(token.lang ?? "").split(/\s/, 1)[0] ?? ""} />;
    case "blockquote":
      return <blockquote dir="auto">{children(token)}</blockquote>;
    case "list":
      // The direction of the first item is that of the bullets.
      return token.ordered ? <ol dir="auto" start={Number(token.start)}>{token.items.map(listItem)}</ol> : <ul dir="auto">{token.items.map(listItem)}</ul>;
    case "math":
      return token.display ? <div class="md-math" tabIndex={0}><Formula tex={token.tex} display /></div> : <Formula tex={token.tex} display={false} />;
    case "footnote":
      return (
        <div class="md-note" data-note={token.label} tabIndex={-1}>
          <sup>{token.label}</sup> {children(token)}
        </div>
      );
    case "footnote_ref":
      return (
        <sup>
          <button type="button" class="md-ref" aria-label={`Footnote ${token.label}`} onClick={(event) => showNote(event.currentTarget, token.label)}>
            {token.label}
          </button>
        </sup>
      );
    case "table":
      return <Table table={token} />;
    case "hr":
      return <hr />;
    case "br":
      return <br />;
    case "strong":
      return <strong>{children(token, inLink)}</strong>;
    case "em":
      return <em>{children(token, inLink)}</em>;
    case "del":
      return <del>{children(token, inLink)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "checkbox":
      return <input type="checkbox" checked={token.checked} disabled aria-label={token.checked ? "Done" : "To do"} />;
    case "link":
      return link(token);
    case "image":
      return image(token, inLink);
    case "escape":
      return token.text;
    case "text":
      return token.tokens ? children(token, inLink) : unescaped(token.raw);
    case "space":
    case "def":
      return null;
    case "html":
    case "list_item":
      return token.raw;
  }
}

/** Moves to the text of a footnote in the same answer. */
function showNote(from: Element, label: string): void {
  const notes = from.closest(".md")?.querySelectorAll<HTMLElement>(".md-note") ?? [];
  const note = [...notes].find((each) => each.dataset["note"] === label);
  note?.scrollIntoView({ block: "nearest" });
  note?.focus({ preventScroll: true });
}

function children({ tokens = [] }: { tokens?: readonly Tokens.Generic[] | undefined }, inLink = false): ComponentChild[] {
  return tokens.map((token) => rendered(token as MarkedToken, 0, inLink));
}

function listItem(item: Tokens.ListItem) {
  return <li class={item.task ? "md-task" : undefined}>{children(item)}</li>;
}

function Table({ table }: { table: Tokens.Table }) {
  const side = ({ align }: Tokens.TableCell) => (align ? `md-${align}` : undefined);
  return (
    <div class="md-table" dir="auto" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {table.header.map((cell) => (
              <th class={side(cell)}>{children(cell)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td class={side(cell)}>{children(cell)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function link(token: Tokens.Link): ComponentChild {
  // The address and the text of an autolink are literal.
  if (token.autolink) return external(token.href, null, token.text) ?? token.text;
  const address = unescaped(token.href);
  const text = children(token, true);
  return external(address, token.title, text) ?? (address ? [...text, ` (${address})`] : text);
}

function image(token: Tokens.Image, inLink: boolean): ComponentChild {
  if (IMAGE_DATA.test(token.href)) return <img class="md-image" src={token.href} alt={plainText(token)} title={token.title ?? undefined} />;
  const name = `Image: ${plainText(token) || "untitled"}`;
  return (!inLink && external(unescaped(token.href), token.title, name)) || name;
}

function plainText(token: Tokens.Generic): string {
  if (token.tokens) return token.tokens.map(plainText).join("");
  return token.type === "text" ? unescaped(token.raw) : String(token["text"] ?? token.raw);
}

/** A link to another page, or null unless the address is one of the web or of a mailbox. */
function external(address: string, title: string | null | undefined, text: ComponentChild): ComponentChild {
  if (!SAFE_ADDRESS.test(address)) return null;
  return (
    <a href={address} title={title ? unescaped(title) : undefined} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  );
}
