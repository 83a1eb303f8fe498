// Markdown that is still being written. Pure.
import { blocksOf, type Block } from "./blocks";

/** How many blocks at the end the next words may still change: a list takes up what follows a blank line. */
const OPEN_BLOCKS = 2;

/** A block and the text that it was made of: where the text is the same, so is the block. */
export interface Piece {
  block: Block;
  raw: string;
}

/** Reads a text that grows: blocks that are complete are read once. */
export class GrowingText {
  private settled = "";
  private pieces: readonly Piece[] = [];

  read(text: string): readonly Piece[] {
    const source = text.replace(/\r\n?/g, "\n");
    if (!source.startsWith(this.settled)) {
      this.settled = "";
      this.pieces = [];
    }
    const lines = source.slice(this.settled.length).split("\n");
    const placed = blocksOf(lines.map(withoutTabs));
    const open = placed.map(({ block, from, to }) => ({ block, raw: lines.slice(from, to).join("\n") }));
    const all = [...this.pieces, ...open];
    const end = placed.at(-OPEN_BLOCKS)?.from;
    if (end) {
      this.settled += `${lines.slice(0, end).join("\n")}\n`;
      this.pieces = all.slice(0, -OPEN_BLOCKS);
    }
    return all;
  }
}

function withoutTabs(line: string): string {
  return line.replace(/^[ \t]*\t/, (space) => space.replaceAll("\t", "    "));
}
