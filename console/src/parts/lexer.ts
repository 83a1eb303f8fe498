// Markdown as tokens: CommonMark and GitHub's extensions, read by marked. Pure.
import { characterEntitiesHtml4 } from "character-entities-html4";
import { Lexer, Tokenizer, getDefaults, type MarkedOptions, type MarkedToken as OwnToken, type Token, type Tokens, type TokensList } from "marked";

export type { Tokens } from "marked";
/** A token of marked, or one of the extensions. */
export type MarkedToken = OwnToken | ExtraToken;

/** Deeper nesting is plain text: a browser cannot display it, and the lexer is recursive. */
const MAX_BLOCK_DEPTH = 24;
const MAX_INLINE_DEPTH = 16;
/** The next characters can change at least this number of blocks at the end: a list continues after a blank line. */
const OPEN_BLOCKS = 2;
const BLANK_LINE = /\n[ \t]*\n$/;

/** A block of raw HTML is paragraphs: the Markdown in it is read, and its tags are text. */
class TextTokenizer extends Tokenizer {
  override html(): undefined {}
}

class BoundedLexer extends Lexer {
  private blockDepth = 0;
  private inlineDepth = 0;

  override blockTokens(src: string, tokens?: Token[], lastParagraphClipped?: boolean): Token[];
  override blockTokens(src: string, tokens?: TokensList, lastParagraphClipped?: boolean): TokensList;
  override blockTokens(src: string, tokens: Token[] = [], lastParagraphClipped = false): Token[] {
    if (this.blockDepth > MAX_BLOCK_DEPTH) {
      this.state.top = true;
      return withText(src, tokens);
    }
    this.blockDepth++;
    try {
      return super.blockTokens(src, tokens, lastParagraphClipped);
    } finally {
      this.blockDepth--;
    }
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (this.inlineDepth > MAX_INLINE_DEPTH) return withText(src, tokens);
    // An unclosed `<a>` affects its own block only.
    if (this.inlineDepth === 0) this.state.inLink = false;
    this.inlineDepth++;
    try {
      return super.inlineTokens(src, tokens);
    } finally {
      this.inlineDepth--;
    }
  }
}

function withText(src: string, tokens: Token[]): Token[] {
  tokens.push({ type: "text", raw: src, text: src });
  return tokens;
}

/** A formula of TeX. */
export interface MathToken {
  type: "math";
  raw: string;
  tex: string;
  display: boolean;
}

/** The text of a footnote. */
export interface FootnoteToken {
  type: "footnote";
  raw: string;
  label: string;
  tokens: Token[];
}

/** A reference to a footnote. */
export interface FootnoteRefToken {
  type: "footnote_ref";
  raw: string;
  label: string;
}

export type ExtraToken = MathToken | FootnoteToken | FootnoteRefToken;

// A formula has no blank line, so that a growing text is read as a complete one.
const BLOCK_MATH = /^ {0,3}(?:\$\$((?:(?!\n[ \t]*\n|\$\$)[^]){1,1500})\$\$|\\\[((?:(?!\n[ \t]*\n|\\\])[^]){1,1500})\\\])[ \t]*(?:\n+|$)/;
const INLINE_MATH = /^(?:\$\$((?:\\[^]|[^\\$]){1,2000})\$\$|\\\(((?:(?!\\\))[^]){1,2000})\\\)|\$(?![\s$])((?:\\[^]|[^\\$\n]){0,2000}[^\s\\$]|[^\s\\$])\$(?![\d$]))/;
const FOOTNOTE = /^ {0,3}\[\^([^\]\s]{1,40})\]:[ \t]*([^\n]*(?:\n(?![ \t]*\n| {0,3}\[\^)[^\n]+)*)(?:\n+|$)/;
const FOOTNOTE_REF = /^\[\^([^\]\s]{1,40})\](?!:)/;

type Extension = (this: { lexer: Lexer }, src: string, tokens: Token[]) => Tokens.Generic | undefined;

const blockMath: Extension = function (src) {
  const found = BLOCK_MATH.exec(src);
  return found ? { type: "math", raw: found[0], tex: found[1] ?? found[2] ?? "", display: true } : undefined;
};

const footnote: Extension = function (src) {
  const found = FOOTNOTE.exec(src);
  return found ? { type: "footnote", raw: found[0], label: found[1] ?? "", tokens: this.lexer.inlineTokens((found[2] ?? "").trim(), []) } : undefined;
};

const inlineMath: Extension = function (src) {
  const found = INLINE_MATH.exec(src);
  return found ? { type: "math", raw: found[0], tex: found[1] ?? found[2] ?? found[3] ?? "", display: found[1] !== undefined } : undefined;
};

const footnoteRef: Extension = function (src) {
  const found = FOOTNOTE_REF.exec(src);
  return found ? { type: "footnote_ref", raw: found[0], label: found[1] ?? "" } : undefined;
};

/** Formulas and the search for them have a limit, or a long text of many pieces would take long. */
const MAX_SEARCHED = 4_000;

/** Where an extension may begin, so that text before it ends there. */
const startOf = (pattern: RegExp) => (src: string) => {
  const at = src.slice(0, MAX_SEARCHED).search(pattern);
  return at < 0 ? undefined : at;
};

const EXTENSIONS = {
  renderers: {},
  childTokens: {},
  block: [blockMath, footnote],
  inline: [inlineMath, footnoteRef],
  startBlock: [startOf(/(?<=\n) {0,3}(?:\$\$|\\\[|\[\^[^\]\s]{1,40}\]:)/)],
  startInline: [startOf(/\$|\\\(|\[\^/)],
};

/** The tokens of a complete text. */
export function lex(text: string): TokensList {
  const options = { ...getDefaults(), silent: true, tokenizer: new TextTokenizer(), extensions: EXTENSIONS };
  return new BoundedLexer(options as unknown as MarkedOptions<string, string>).lex(text);
}

/** A block at the top level of a text. Two blocks with the same key look the same. */
export interface Block {
  token: MarkedToken;
  key: string;
}

/** Reads a text that grows: complete blocks are read only once. */
export class GrowingText {
  private settled = "";
  private blocks: readonly Block[] = [];

  read(text: string): readonly Block[] {
    const source = text.replace(/\r\n?/g, "\n");
    if (!source.startsWith(this.settled)) this.reset();
    let tokens = lex(source.slice(this.settled.length));
    if (Object.keys(tokens.links).length > 0) {
      // A link definition can change every block before and after it.
      if (this.settled) tokens = lex(source);
      this.reset();
      return blocksOf(tokens, JSON.stringify(tokens.links));
    }
    const open = blocksOf(tokens, "");
    const all = [...this.blocks, ...open];
    const first = firstOpen(tokens);
    const tail = tokens.slice(first).map(({ raw }) => raw).join("");
    if (first > 0 && source.endsWith(tail)) {
      this.settled = source.slice(0, source.length - tail.length);
      this.blocks = all.slice(0, all.length - blocksOf(tokens.slice(first), "").length);
    }
    return all;
  }

  private reset(): void {
    this.settled = "";
    this.blocks = [];
  }
}

/** Where the part begins that the next characters can change: after a blank line, with some blocks behind it. */
function firstOpen(tokens: readonly Token[]): number {
  let behind = 0;
  for (let at = tokens.length - 1; at > 0; at--) {
    if (tokens[at]?.type === "space") continue;
    behind++;
    if (behind >= OPEN_BLOCKS && BLANK_LINE.test(tokens[at - 1]?.raw ?? "")) return at;
  }
  return 0;
}

function blocksOf(tokens: readonly Token[], links: string): Block[] {
  const visible = (tokens as readonly unknown[] as readonly MarkedToken[]).filter(({ type }) => type !== "space" && type !== "def");
  return visible.map((token) => ({ token, key: token.raw + links }));
}

/** The text with its character references replaced; marked leaves them to the HTML parser. */
export function unescaped(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z][a-z0-9]*));/gi, (whole, hex, decimal, name) =>
    name ? (namedCharacter(name) ?? whole) : codePoint(hex ? parseInt(hex, 16) : Number(decimal)),
  );
}

function namedCharacter(name: string): string | undefined {
  if (name === "apos") return "'";
  return Object.hasOwn(characterEntitiesHtml4, name) ? characterEntitiesHtml4[name] : undefined;
}

function codePoint(code: number): string {
  const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return String.fromCodePoint(valid ? code : 0xfffd);
}
