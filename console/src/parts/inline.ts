// What stands inside of a paragraph: emphasis, code, links. Pure.

export type Inline =
  | string
  | { kind: "strong" | "em" | "del"; inner: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "link"; address: string; inner: Inline[] }
  | { kind: "image"; address: string; text: string }
  | { kind: "break" };

/** A run of `*`, `_` or `~`, as long as it has not found its other half. */
interface Mark {
  kind: "mark";
  char: string;
  length: number;
  /** How long it was at first. */
  whole: number;
  opens: boolean;
  closes: boolean;
}

type Node = Inline | Mark;

const SPECIAL = new RegExp(
  [
    "\\\\(?<escaped>[!-/:-@[-`{-~])",
    "(?<broken>\\\\\\n|(?<! ) {2,}\\n)",
    "(?<ticks>`+)",
    "(?<marks>\\*+|_+|~+)",
    "(?<bracket>!?\\[)",
    "<(?<pointed>[a-z][a-z0-9+.-]{1,31}:[^\\s<>]*|[^\\s<>@]{1,64}@[^\\s<>@]+)>",
    "\\b(?<bare>(?:https?://|www\\.)[^\\s<]+|[\\w.+-]{1,64}@[\\w-]+(?:\\.[\\w-]+)+)",
    "&(?<entity>#\\d{1,7}|#x[0-9a-f]{1,6}|\\w{1,8});",
  ].join("|"),
  "gi",
);
const TARGET = /\(\s*(?:<([^<>\n]*)>|((?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\])*\))*))(?:\s+(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:\\.|[^)\\])*\)))?\s*\)/y;
const TICKS = /`+/g;
const LONGEST_LABEL = 500;
/** In words and marks. */
const FARTHEST = 500;
/** Marks that are nested deeper than anybody can see are text: a page cannot show them either. */
const DEEPEST = 16;
const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** The text with its marks read; a link has no links in it. */
export function inlinesOf(text: string, inLink = false): Inline[] {
  const nodes: Node[] = [];
  const unclosed = new Set<string>();
  let at = 0;
  SPECIAL.lastIndex = 0;
  for (let found = SPECIAL.exec(text); found; found = SPECIAL.exec(text)) {
    const { node, end } = special(text, found, inLink, unclosed);
    nodes.push(text.slice(at, found.index), node);
    SPECIAL.lastIndex = at = end;
  }
  nodes.push(text.slice(at));
  return paired(nodes);
}

function special(text: string, found: RegExpExecArray, inLink: boolean, unclosed: Set<string>): { node: Node; end: number } {
  const { escaped, broken, ticks, marks, bracket, pointed, bare, entity } = found.groups ?? {};
  const [whole] = found;
  const start = found.index;
  const end = start + whole.length;
  if (escaped) return { node: escaped, end };
  if (broken) return { node: { kind: "break" }, end };
  if (ticks) return codeAt(text, ticks, end, unclosed);
  if (marks) return { node: markAt(text, start, end), end };
  if (bracket) return linkAt(text, bracket, end, inLink) ?? { node: bracket, end };
  if (entity) return { node: character(entity) ?? whole, end };
  if (inLink) return { node: whole, end };
  if (pointed) return { node: link(pointed, pointed), end };
  const address = trimmed(bare ?? "");
  return { node: link(address, address), end: start + address.length };
}

function codeAt(text: string, ticks: string, start: number, unclosed: Set<string>): { node: Node; end: number } {
  const close = unclosed.has(ticks) ? -1 : closing(text, ticks, start);
  if (close < 0) {
    unclosed.add(ticks);
    return { node: ticks, end: start };
  }
  const code = text.slice(start, close).replaceAll("\n", " ");
  const padded = code.startsWith(" ") && code.endsWith(" ") && code.trim();
  return { node: { kind: "code", text: padded ? code.slice(1, -1) : code }, end: close + ticks.length };
}

/** Where the next run of just as many backticks is. */
function closing(text: string, ticks: string, start: number): number {
  TICKS.lastIndex = start;
  let found = TICKS.exec(text);
  while (found && found[0] !== ticks) found = TICKS.exec(text);
  return found?.index ?? -1;
}

function markAt(text: string, start: number, end: number): Mark {
  const before = kindOf(text[start - 1]);
  const after = kindOf(text[end]);
  const left = after !== "space" && (after === "word" || before !== "word");
  const right = before !== "space" && (before === "word" || after !== "word");
  const char = text[start] ?? "";
  const inWords = char !== "_";
  return {
    kind: "mark",
    char,
    length: end - start,
    whole: end - start,
    opens: left && (inWords || !right || before === "sign"),
    closes: right && (inWords || !left || after === "sign"),
  };
}

function kindOf(char = " "): "space" | "sign" | "word" {
  return /\s/.test(char) ? "space" : /[\p{P}\p{S}]/u.test(char) ? "sign" : "word";
}

/** `[label](address)`, or nothing. */
function linkAt(text: string, bracket: string, start: number, inLink: boolean): { node: Node; end: number } | null {
  const close = labelEnd(text, start);
  TARGET.lastIndex = close + 1;
  const target = close < 0 ? null : TARGET.exec(text);
  if (!target || (inLink && bracket === "[")) return null;
  const label = text.slice(start, close);
  const address = (target[1] ?? target[2] ?? "").replace(/\\([!-/:-@[-`{-~])/g, "$1");
  const end = close + 1 + target[0].length;
  if (bracket === "[") return { node: { kind: "link", address, inner: inlinesOf(label, true) }, end };
  return { node: { kind: "image", address, text: label }, end };
}

/** Where the bracket closes that was opened before `start`; -1 if it does not. */
function labelEnd(text: string, start: number): number {
  let open = 1;
  for (let at = start; at < Math.min(text.length, start + LONGEST_LABEL); at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "[") open++;
    else if (text[at] === "]" && --open === 0) return at;
  }
  return -1;
}

/** What people write after an address does not belong to it. */
function trimmed(address: string): string {
  let kept = address.replace(/[?!.,:;*_~'"]+$/, "");
  while (kept.endsWith(")") && kept.split(")").length > kept.split("(").length) kept = kept.slice(0, -1);
  return kept;
}

function link(address: string, text: string): Inline {
  const scheme = /^[a-z][a-z0-9+.-]*:/i.test(address) ? "" : address.includes("@") ? "mailto:" : "http://";
  return { kind: "link", address: scheme + address, inner: [text] };
}

function character(entity: string): string | undefined {
  if (!entity.startsWith("#")) return ENTITIES[entity];
  const code = /^#x/i.test(entity) ? parseInt(entity.slice(2), 16) : parseInt(entity.slice(1), 10);
  return code && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}

/** Every mark that closes takes the nearest that opens; marks that stay alone are text. */
function paired(nodes: readonly Node[]): Inline[] {
  const open: Node[] = [];
  for (const node of nodes) {
    if (isMark(node)) close(node, open);
    if (!isMark(node) || node.length) open.push(node);
  }
  return plain(open);
}

/** Puts what stands between this mark and those that it closes into one. */
function close(closer: Mark, open: Node[]): void {
  while (closer.closes && closer.length) {
    const back = openerOf(closer, open);
    const opener = open[back];
    if (!isMark(opener)) return;
    const used = closer.char === "~" ? closer.length : Math.min(2, opener.length, closer.length);
    const kind = closer.char === "~" ? "del" : used === 2 ? "strong" : "em";
    const inner = plain(open.slice(back + 1));
    if (depthOf(inner) >= DEEPEST) return;
    open.length = back + 1;
    opener.length -= used;
    closer.length -= used;
    if (!opener.length) open.pop();
    open.push({ kind, inner });
  }
}

/** Where the mark is that this one closes; -1 if it is nowhere, or too far away to be meant. */
function openerOf(closer: Mark, open: readonly Node[]): number {
  for (let at = open.length - 1; at >= Math.max(0, open.length - FARTHEST); at--) {
    const node = open[at];
    if (isMark(node) && isPair(node, closer)) return at;
  }
  return -1;
}

function depthOf(nodes: readonly Inline[]): number {
  return Math.max(0, ...nodes.map((node) => (typeof node === "object" && "inner" in node ? 1 + depthOf(node.inner) : 0)));
}

function isMark(node: Node | undefined): node is Mark {
  return typeof node === "object" && node.kind === "mark";
}

function isPair(opener: Mark, closer: Mark): boolean {
  if (!opener.opens || opener.char !== closer.char) return false;
  if (closer.char === "~") return opener.length === closer.length && closer.length <= 2;
  // In `*a**b*` the middle belongs to neither side: that is Markdown's rule of three.
  const either = opener.closes || closer.opens;
  return !either || (opener.whole + closer.whole) % 3 !== 0 || (opener.whole % 3 === 0 && closer.whole % 3 === 0);
}

function plain(nodes: readonly Node[]): Inline[] {
  const merged: Inline[] = [];
  for (const node of nodes) {
    const one = isMark(node) ? node.char.repeat(node.length) : node;
    const last = merged.at(-1);
    if (typeof one === "string" && typeof last === "string") merged[merged.length - 1] = last + one;
    else if (one !== "") merged.push(one);
  }
  return merged;
}
