// Markdown as marked reads it, in the form that the page's own reader gives: the reference for its tests.
import { Lexer, type MarkedToken, type Token } from "marked";
import type { Block, Item } from "../src/parts/blocks";
import type { Inline } from "../src/parts/inline";

/** Blocks with what is inside of them read, too. */
export type Read =
  | { kind: "paragraph" | "heading"; depth?: number; inner: Inline[] }
  | { kind: "quote"; blocks: Read[] }
  | { kind: "list"; first: number | null; loose: boolean; items: { done: boolean | null; blocks: Read[] }[] }
  | { kind: "table"; aligns: unknown; header: Inline[][]; rows: Inline[][][] }
  | { kind: "code"; text: string; language: string }
  | { kind: "rule" };

export function reference(text: string): Read[] {
  return blocks(new Lexer().lex(text));
}

/** What the page's reader has found, with its words read. */
export function read(found: readonly Block[], words: (text: string) => Inline[]): Read[] {
  const items = (list: readonly Item[]) => list.map(({ done, blocks }) => ({ done, blocks: read(blocks, words) }));
  return found.map((block): Read => {
    switch (block.kind) {
      case "paragraph":
        return { kind: block.kind, inner: words(block.text) };
      case "heading":
        return { kind: block.kind, depth: block.depth, inner: words(block.text) };
      case "quote":
        return { kind: block.kind, blocks: read(block.blocks, words) };
      case "list":
        return { ...block, items: items(block.items) };
      case "table":
        return { ...block, header: block.header.map(words), rows: block.rows.map((row) => row.map(words)) };
      default:
        return block;
    }
  });
}

function blocks(tokens: readonly Token[]): Read[] {
  return tokens.flatMap((token): Read[] => {
    const known = token as MarkedToken;
    switch (known.type) {
      case "space":
      case "def":
      case "checkbox":
        return [];
      case "heading":
        return [{ kind: "heading", depth: known.depth, inner: inlines(known.tokens) }];
      case "code":
        return [{ kind: "code", text: known.text.trimEnd(), language: known.lang?.split(/\s/)[0] ?? "" }];
      case "blockquote":
        return [{ kind: "quote", blocks: blocks(known.tokens) }];
      case "hr":
        return [{ kind: "rule" }];
      case "list":
        return [
          {
            kind: "list",
            first: known.ordered ? Number(known.start) : null,
            loose: known.loose,
            items: known.items.map((item) => ({ done: item.task ? (item.checked ?? false) : null, blocks: blocks(item.tokens) })),
          },
        ];
      case "table":
        return [
          {
            kind: "table",
            aligns: known.align,
            header: known.header.map((cell) => inlines(cell.tokens)),
            rows: known.rows.map((row) => row.map((cell) => inlines(cell.tokens))),
          },
        ];
      case "paragraph":
      case "text":
        return [{ kind: "paragraph", inner: trimmed(inlines(known.tokens ?? [known])) }];
      default:
        return [{ kind: "paragraph", inner: [known.raw.trim()] }];
    }
  });
}

/** Marked leaves the indent of an item's later paragraphs in place. */
function trimmed([first, ...rest]: Inline[]): Inline[] {
  if (first === undefined) return [];
  return [typeof first === "string" ? first.trimStart() : first, ...rest];
}

const NAMED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0" };

function inlines(tokens: readonly Token[]): Inline[] {
  const found: Inline[] = [];
  for (const token of tokens) {
    const one = inline(token as MarkedToken);
    const last = found.at(-1);
    if (typeof one === "string" && typeof last === "string") found[found.length - 1] = last + one;
    else if (one !== "") found.push(one);
  }
  return found;
}

function inline(token: MarkedToken): Inline {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return { kind: token.type, inner: inlines(token.tokens) };
    case "codespan":
      return { kind: "code", text: token.text };
    case "br":
      return { kind: "break" };
    case "link":
      return { kind: "link", address: token.href, inner: inlines(token.tokens) };
    case "image":
      return { kind: "image", address: token.href, text: token.text };
    case "checkbox":
      return "";
    case "text":
      return token.text.replace(/\n[ \t]+/g, "\n").replace(/&(\w+);/g, (whole, name: string) => NAMED[name] ?? whole);
    case "escape":
      return token.text;
    default:
      return token.raw;
  }
}
