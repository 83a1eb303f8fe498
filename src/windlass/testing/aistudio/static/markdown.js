// Renders Markdown as the page does: components around paragraphs, a frame around code.
import { h, icon } from "./markup.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)\s*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const DELIMITERS = /^ *\|? *:?-+:? *(\| *:?-+:? *)*\|? *$/;

let isPlain = true;

/** The elements for a text. An unfinished mark is shown as it is written. */
export function rendered(text) {
  isPlain = !/[*_`#>|~[\]\n]|^ *([-+]|\d+[.)]) /.test(text);
  return blocksOf(text.split("\n"));
}

function blocksOf(lines) {
  const blocks = [];
  while (lines.length) {
    if (lines[0].trim() === "") lines.shift();
    else blocks.push(nextBlock(lines));
  }
  return blocks;
}

function nextBlock(lines) {
  const line = lines[0];
  if (FENCE.test(line)) return codeBlock(lines);
  if (HEADING.test(line)) return headingOf(lines.shift());
  if (RULE.test(line)) return lines.shift() && h("hr", {});
  if (QUOTE.test(line)) return h("blockquote", {}, ...blocksOf(taken(lines, QUOTE).map((each) => each.replace(QUOTE, ""))));
  if (ITEM.test(line)) return listOf(lines);
  if (line.includes("|") && DELIMITERS.test(lines[1] ?? "") && lines[1].includes("-")) return tableOf(lines);
  return h("p", {}, ...inlineOf(paragraph(lines)));
}

function taken(lines, pattern) {
  const found = [];
  while (lines.length && pattern.test(lines[0])) found.push(lines.shift());
  return found;
}

function paragraph(lines) {
  const words = [lines.shift()];
  const isOther = (line) => line.trim() === "" || [FENCE, HEADING, QUOTE, ITEM, RULE].some((each) => each.test(line));
  while (lines.length && !isOther(lines[0])) words.push(lines.shift());
  return words.join("\n");
}

function headingOf(line) {
  const [, marks, words] = HEADING.exec(line);
  return h(`h${marks.length}`, {}, ...inlineOf(words));
}

function codeBlock(lines) {
  const [, ticks, language] = FENCE.exec(lines.shift());
  const code = [];
  while (lines.length && !lines[0].trim().startsWith(ticks)) code.push(lines.shift());
  lines.shift();
  const button = (name, label) => h("button", { type: "button", "aria-label": label }, icon(name));
  const title = language ? language[0].toUpperCase() + language.slice(1) : "";
  return h(
    "ms-code-block",
    {},
    h(
      "mat-expansion-panel",
      {},
      h(
        "mat-expansion-panel-header",
        {},
        h("mat-panel-title", {}, icon("code"), h("span", {}, said(title))),
        h("div", { class: "code-actions" }, button("download", "Download"), button("content_copy", "Copy to clipboard")),
      ),
      h("div", { class: "code-body" }, h("pre", {}, h("code", { class: "hljs" }, ...highlighted(code.join("\n"))))),
    ),
  );
}

/** Colours words, as the page does: the text of code is spread over many elements. */
function highlighted(code) {
  return code.split(/\b(def|return|import|const|function|if|for)\b/).map((piece, place) =>
    place % 2 ? h("span", { class: "hljs-keyword" }, said(piece)) : said(piece),
  );
}

function listOf(lines) {
  const [, indent, mark] = ITEM.exec(lines[0]);
  const isOrdered = /\d/.test(mark);
  const items = [];
  while (lines.length) {
    const found = ITEM.exec(lines[0]);
    if (!found || found[1].length !== indent.length || /\d/.test(found[2]) !== isOrdered) break;
    const width = found[0].length;
    const own = [lines.shift().slice(width)];
    while (lines.length && (lines[0].trim() === "" || lines[0].search(/\S/) > indent.length)) {
      if (lines[0].trim() === "" && !(lines[1] ?? "").startsWith(" ".repeat(indent.length + 1))) break;
      own.push(lines.shift().replace(new RegExp(`^ {0,${width}}`), ""));
    }
    while (lines.length > 1 && lines[0].trim() === "" && ITEM.exec(lines[1])?.[1].length === indent.length) lines.shift();
    items.push(itemOf(own));
  }
  const start = parseInt(mark, 10);
  return h(isOrdered ? "ol" : "ul", isOrdered && start !== 1 ? { start: String(start) } : {}, ...items);
}

function itemOf(own) {
  const task = /^\[([ xX])\] /.exec(own[0]);
  if (task) own[0] = own[0].slice(4);
  const box = task && h("input", { type: "checkbox", disabled: "", ...(task[1] === " " ? {} : { checked: "" }) });
  return h("li", {}, box, ...blocksOf(own));
}

function tableOf(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const head = cells(lines.shift());
  const aligns = cells(lines.shift()).map((rule) => (rule.endsWith(":") ? (rule.startsWith(":") ? "center" : "right") : rule.startsWith(":") ? "left" : null));
  const row = (tag, words) => h("tr", {}, ...words.map((word, place) => h(tag, { align: aligns[place] ?? null }, ...inlineOf(word))));
  const body = [];
  while (lines.length && lines[0].includes("|")) body.push(row("td", cells(lines.shift())));
  return h("div", { class: "table-container" }, h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, ...body)));
}

/** Text of the chat: it is never translated. */
export function said(text) {
  return document.createTextNode(text);
}

const INLINE = [
  [/(`+)([^]+?)(?<!`)\1(?!`)/, (_, ticks, code) => h("code", { class: "inline-code" }, said(code.replace(/^ (`)|(`) $/g, "$1$2")))],
  [/!\[([^\]]*)\]\(([^)\s]+)\)/, (_, alt, src) => h("img", { alt, src })],
  [/\[((?:[^\[\]]|\\\])+)\]\(([^)\s]+)\)/, (_, words, href) => h("a", { href, target: "_blank" }, ...inlineOf(words))],
  [/\*\*(?=\S)([^]+?)(?<=\S)\*\*(?!\*)/, (_, words) => h("strong", {}, ...inlineOf(words))],
  [/(?<![\p{L}\p{N}_])__(?=\S)([^]+?)(?<=\S)__(?![\p{L}\p{N}_])/u, (_, words) => h("strong", {}, ...inlineOf(words))],
  [/~~(?=\S)([^]+?)(?<=\S)~~/, (_, words) => h("del", {}, ...inlineOf(words))],
  [/\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*)/, (_, words) => h("em", {}, ...inlineOf(words))],
  [/(?<![\p{L}\p{N}_])_(?=[^\s_])([^_]*?[^\s_])_(?![\p{L}\p{N}_])/u, (_, words) => h("em", {}, ...inlineOf(words))],
  [/(?: {2,}|\\)\n/, () => h("br", {})],
];

/** The elements for a line of text. Beside marks, words are in components of their own. */
function inlineOf(text) {
  let first = null;
  for (const [pattern, make] of INLINE) {
    const found = pattern.exec(text);
    if (found && (first === null || found.index < first.found.index)) first = { found, make };
  }
  if (first === null) return text ? [wordsIn(text)] : [];
  const { found, make } = first;
  const rest = text.slice(found.index + found[0].length);
  const before = text.slice(0, found.index);
  return [...(before ? [wordsIn(before)] : []), make(...found), ...inlineOf(rest)];
}

function wordsIn(text) {
  const words = h("span", {}, said(text));
  return isPlain ? words : h("ms-cmark-node", { class: "cmark-node" }, words);
}
