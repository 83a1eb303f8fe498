// Markdown, cut into its blocks as the text grows. Pure.
import { Lexer, type Links, type Token } from "marked";

/** How many blocks at the end the next words may still change: a list takes up what follows a blank line. */
const OPEN_BLOCKS = 2;
/** Inside a block as long as this, marks like `**` are read only when the text is complete. */
const LONG = 16_000;
/** Blocks that hold no such marks. */
const UNMARKED = new Set(["code", "space", "def", "hr", "html"]);

/** Reads a text that grows: blocks that are complete are read once. */
export class BlockReader {
  private settledText = "";
  private settled: Token[] = [];
  private links: Links = {};

  /** The blocks of the text. While it is `busy`, links that are defined further down may be missing. */
  read(text: string, busy: boolean): Token[] {
    const source = text.replace(/\r\n?/g, "\n");
    if (!busy || !source.startsWith(this.settledText)) this.forget();
    const open = this.blocksOf(source.slice(this.settledText.length), busy);
    const blocks = [...this.settled, ...open];
    if (busy) this.settle(open, source);
    return blocks;
  }

  private forget(): void {
    this.settledText = "";
    this.settled = [];
    this.links = {};
  }

  private blocksOf(source: string, busy: boolean): Token[] {
    try {
      const lexer = new Lexer();
      lexer.tokens.links = { ...this.links };
      if (!busy || source.length < LONG) {
        lexer.lex(source);
        return lexer.tokens;
      }
      return lexer.blockTokens(source).map((block) => (UNMARKED.has(block.type) ? block : plain(block.raw)));
    } catch {
      // Nested deeper than anybody can read, so deep that no parser's stack holds it.
      return [plain(source)];
    }
  }

  private settle(open: readonly Token[], source: string): void {
    const said = open.flatMap((block, at) => (block.type === "space" ? [] : [at]));
    const end = said.at(-OPEN_BLOCKS) ?? 0;
    const done = open.slice(0, end);
    const text = this.settledText + done.map((block) => block.raw).join("");
    if (!end || !source.startsWith(text)) return;
    this.settledText = text;
    this.settled = [...this.settled, ...done];
    for (const block of done) {
      if (block.type === "def") this.links[block["tag"]] ??= { href: block["href"], title: block["title"] };
    }
  }
}

function plain(text: string): Token {
  return { type: "text", raw: text, text };
}
