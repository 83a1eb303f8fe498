// Markdown, cut into its blocks. Pure.

export type Block =
  | { kind: "paragraph"; text: string }
  | { kind: "heading"; depth: number; text: string }
  | { kind: "code"; text: string; language: string }
  | { kind: "quote"; blocks: readonly Block[] }
  | { kind: "list"; first: number | null; loose: boolean; items: readonly Item[] }
  | { kind: "table"; aligns: readonly Align[]; header: readonly string[]; rows: readonly (readonly string[])[] }
  | { kind: "rule" };

export interface Item {
  /** Of a task: whether it is done. */
  done: boolean | null;
  blocks: readonly Block[];
}

export type Align = "left" | "center" | "right" | null;

/** A block, and the lines that it stands in. */
export interface Placed {
  block: Block;
  from: number;
  to: number;
}

type Lines = readonly string[];
/** The block that begins at that line, and where the next one may begin. */
type Reader = (lines: Lines, at: number, depth: number) => [block: Block, next: number] | null;

const DEEPEST = 24;
// A model may write spaces without end: no pattern looks at the same ones twice.
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?!\S)/;
const UNDERLINE = /^ {0,3}(={3,}|-{3,})\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:(\s+)(.*))?$/;
const TASK = /^\[([ xX])\]\s+(?=\S)/;
const DELIMITERS = /^ {0,3}\|?\s*:?-+:?(?:\s*\|\s*:?-+:?)*\s*\|?$/;

/** The blocks of these lines. What is nested deeper than anybody can read is text. */
export function blocksOf(lines: Lines, depth = 0): Placed[] {
  if (depth > DEEPEST) return [{ block: { kind: "paragraph", text: lines.join("\n") }, from: 0, to: lines.length }];
  const placed: Placed[] = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines, at)) at++;
    else {
      const [block, next] = blockAt(lines, at, depth);
      placed.push({ block, from: at, to: next });
      at = next;
    }
  }
  return placed;
}

function blockAt(lines: Lines, at: number, depth: number): [Block, number] {
  for (const read of [fence, heading, rule, quote, list, table, indented]) {
    const found = read(lines, at, depth);
    if (found) return found;
  }
  return paragraph(lines, at);
}

const fence: Reader = (lines, at) => {
  const [, space = "", ticks = "", info = ""] = FENCE.exec(lines[at] ?? "") ?? [];
  if (!ticks) return null;
  const closing = new RegExp(`^ {0,3}${ticks[0]}{${ticks.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end] ?? "")) end++;
  const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(space.length, indent(line))));
  return [{ kind: "code", text: text.join("\n"), language: info.trim().split(/\s/, 1)[0] ?? "" }, end + 1];
};

const heading: Reader = (lines, at) => {
  const [opening, marks] = HEADING.exec(lines[at] ?? "") ?? [];
  if (!opening || !marks) return null;
  const text = (lines[at] ?? "").slice(opening.length).trim().replace(/(^|\s)#+$/, "").trimEnd();
  return [{ kind: "heading", depth: marks.length, text }, at + 1];
};

const rule: Reader = (lines, at) => (RULE.test(lines[at] ?? "") ? [{ kind: "rule" }, at + 1] : null);

const quote: Reader = (lines, at, depth) => {
  const inner: string[] = [];
  let end = at;
  for (; end < lines.length; end++) {
    const line = lines[end] ?? "";
    if (QUOTE.test(line)) inner.push(line.replace(QUOTE, ""));
    else if (isBlank(inner, inner.length - 1) || isBlank(lines, end) || begins(lines, end)) break;
    else inner.push(line);
  }
  return end > at ? [{ kind: "quote", blocks: unplaced(blocksOf(inner, depth + 1)) }, end] : null;
};

const list: Reader = (lines, at, depth) => {
  const sort = sortOf(lines[at]);
  if (!sort) return null;
  const items: Item[] = [];
  let loose = false;
  let end = at;
  let next = at;
  while (next < lines.length && sortOf(lines[next]) === sort && !RULE.test(lines[next] ?? "")) {
    // Blank lines between two items make all of them paragraphs.
    if (next > end) loose = true;
    const inner = itemLines(lines, next);
    end = next + inner.length;
    const [, done] = TASK.exec(inner[0] ?? "") ?? [];
    if (done) inner[0] = (inner[0] ?? "").replace(TASK, "");
    const placed = blocksOf(inner, depth + 1);
    if (placed.some(({ from }, index) => from > (placed[index - 1]?.to ?? from))) loose = true;
    items.push({ done: done ? done !== " " : null, blocks: unplaced(placed) });
    next = end;
    while (next < lines.length && isBlank(lines, next)) next++;
  }
  const first = /^\d/.test((lines[at] ?? "").trim()) ? parseInt(lines[at] ?? "", 10) : null;
  return [{ kind: "list", first, loose, items }, end];
};

/** What makes two items neighbours in one list: the same bullet, or the same sign after the number. */
function sortOf(line = ""): string {
  return ITEM.exec(line)?.[2]?.slice(-1) ?? "";
}

/** The lines of the item that begins there, without their indent and without blank lines at the end. */
function itemLines(lines: Lines, at: number): string[] {
  const [, space = "", marker = "", gap = "", rest = ""] = ITEM.exec(lines[at] ?? "") ?? [];
  const offset = space.length + marker.length + (rest && gap.length <= 4 ? gap.length : 1);
  const inner = [rest && gap.length > 4 ? gap.slice(1) + rest : rest];
  for (let end = at + 1; end < lines.length; end++) {
    const line = lines[end] ?? "";
    if (isBlank(lines, end) && !(inner.length === 1 && !rest)) inner.push("");
    else if (!isBlank(lines, end) && indent(line) >= offset) inner.push(line.slice(offset));
    else if (isBlank(inner, inner.length - 1) || sortOf(line) || begins(lines, end)) break;
    else inner.push(line.trimStart());
  }
  while (inner.length > 1 && isBlank(inner, inner.length - 1)) inner.pop();
  return inner;
}

const table: Reader = (lines, at) => {
  const delimiters = (lines[at + 1] ?? "").trimEnd();
  if (!DELIMITERS.test(delimiters) || !/[:|]/.test(delimiters)) return null;
  const header = cells(lines[at] ?? "");
  const aligns = cells(delimiters).map(alignOf);
  if (header.length !== aligns.length) return null;
  const rows: string[][] = [];
  let end = at + 2;
  for (; end < lines.length && !isBlank(lines, end) && indent(lines[end] ?? "") < 4 && !starts(lines[end]); end++) {
    const row = cells(lines[end] ?? "");
    rows.push(header.map((_, index) => row[index] ?? ""));
  }
  return [{ kind: "table", aligns, header, rows }, end];
};

function cells(row: string): string[] {
  const inner = row.trim().replace(/^\||(?<!\\)\|$/g, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function alignOf(delimiter: string): Align {
  const left = delimiter.startsWith(":");
  if (delimiter.endsWith(":")) return left ? "center" : "right";
  return left ? "left" : null;
}

const indented: Reader = (lines, at) => {
  let end = at;
  while (end < lines.length && (indent(lines[end] ?? "") >= 4 || isBlank(lines, end))) end++;
  const text = lines.slice(at, end).map((line) => line.slice(4));
  return end > at ? [{ kind: "code", text: text.join("\n").trimEnd(), language: "" }, end] : null;
};

function paragraph(lines: Lines, at: number): [Block, number] {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines, end)) {
    const underline = UNDERLINE.exec(lines[end] ?? "");
    if (underline) return [{ kind: "heading", depth: underline[1]?.startsWith("=") ? 1 : 2, text: textOf(lines, at, end) }, end + 1];
    if (begins(lines, end)) break;
    end++;
  }
  return [{ kind: "paragraph", text: textOf(lines, at, end) }, end];
}

function textOf(lines: Lines, from: number, to: number): string {
  return lines.slice(from, to).map((line) => line.trimStart()).join("\n").trimEnd();
}

/** Whether a block begins there that ends a paragraph. */
function begins(lines: Lines, at: number): boolean {
  return starts(lines[at]) || table(lines, at, 0) !== null;
}

/** A number other than 1 may be part of a sentence: it starts nothing. */
function starts(line = ""): boolean {
  const [, , marker = "", , rest = ""] = ITEM.exec(line) ?? [];
  if (rest && (parseInt(marker, 10) || 1) === 1) return true;
  return [FENCE, HEADING, RULE, QUOTE].some((start) => start.test(line));
}

function isBlank(lines: Lines, at: number): boolean {
  return !lines[at]?.trim();
}

function indent(line: string): number {
  return line.search(/\S|$/);
}

function unplaced(placed: readonly Placed[]): Block[] {
  return placed.map(({ block }) => block);
}
