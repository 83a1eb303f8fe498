import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf } from "../src/parts/blocks";
import { GrowingText } from "../src/parts/growing";
import { inlinesOf } from "../src/parts/inline";
import { headingLevels } from "../src/parts/markdown";
import { read, reference } from "./reference";

/** Each a thing that models write, alone and beside the others. */
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
  "    indented code\n\n    goes on",
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

const shown = (text: string) => read(new GrowingText().read(text).map(({ block }) => block), inlinesOf);

test("Markdown is read as marked reads it, each thing that models write", () => {
  for (const piece of PIECES) assert.deepEqual(shown(piece), reference(piece), piece);
});

test("Markdown is read as marked reads it, any two of them one after the other", () => {
  for (const one of PIECES) {
    for (const other of PIECES) {
      const text = `${one}\n\n${other}\n`;
      assert.deepEqual(shown(text), reference(text), text);
    }
  }
});

test("Markdown is read as marked reads it, any two of them without a line between, but for what follows a list or a quote", () => {
  const takesIn = (piece: string) => /^(>|[-*+] |\d+[.)] )/m.test(piece);
  for (const one of PIECES.filter((piece) => !takesIn(piece))) {
    for (const other of PIECES) {
      const text = `${one}\n${other}\n`;
      assert.deepEqual(shown(text), reference(text), text);
    }
  }
});

test("a table beneath a list is a table of its own", () => {
  const [list, table] = shown("- one\n- two\n| a |\n|---|\n| 1 |");
  assert.equal(list?.kind, "list");
  assert.equal(table?.kind, "table");
});

test("a text that grows word by word has the blocks of the whole text at every step", () => {
  const text = PIECES.join("\n\n");
  const growing = new GrowingText();
  for (let length = 1; length <= text.length; length++) {
    const soFar = text.slice(0, length);
    const whole = blocksOf(soFar.split("\n")).map(({ block }) => block);
    assert.deepEqual(growing.read(soFar).map(({ block }) => block), whole, JSON.stringify(soFar.slice(-30)));
  }
});

test("blocks that are complete are read once", () => {
  const growing = new GrowingText();
  const [first] = growing.read("one\n\ntwo\n\nthree\n\nfour");
  assert.equal(growing.read("one\n\ntwo\n\nthree\n\nfour and more")[0], first);
});

test("a text that becomes another one is read anew", () => {
  const growing = new GrowingText();
  growing.read("one\n\ntwo\n\nthree\n\nfour");
  assert.deepEqual(growing.read("# other")[0]?.block, { kind: "heading", depth: 1, text: "other" });
});

test("lines may end as they do on Windows, and begin with tabs", () => {
  assert.deepEqual(shown("one\r\n\r\n- two\r\n\t- three"), shown("one\n\n- two\n    - three"));
});

test("headings never skip a level, whatever the model skips", () => {
  const levels = (text: string) => headingLevels(blocksOf(text.split("\n")).map(({ block }) => block));
  assert.deepEqual(levels("### a\n###### b\n# c\n## d\n## e"), [2, 3, 2, 3, 3]);
});

test("nothing is nested so deep that a page could not show it", () => {
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
  for (const text of [`${"*".repeat(9_000)}a${"*".repeat(9_000)}`, `${"*a ".repeat(400)}${"b* ".repeat(400)}`, "> ".repeat(9_000), `${"- ".repeat(900)}a`]) {
    assert(depthOf(shown(text)) < 200, text.slice(0, 20));
  }
});

test("what is meant to take forever comes to an end", () => {
  for (const piece of ["> ", "- ", "[", "![", "*", "*a ", "a* ", "a*b", "**a _b ", "`", "` `` ", "a@", "<a", "&#", "\\", "| a ", "(", "www."]) {
    shown(piece.repeat(30_000 / piece.length));
  }
  const spaces = " ".repeat(300_000);
  for (const piece of ["# a", "```", "a|b\n-", "a", "- ", ">"]) shown(`${piece}${spaces}a\`${spaces}b`);
});
