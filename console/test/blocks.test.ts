import assert from "node:assert/strict";
import { test } from "node:test";
import { Lexer, type Token } from "marked";
import { BlockReader } from "../src/parts/blocks";
import { headingLevels } from "../src/parts/markdown";

const TEXT = `# Title

A paragraph with **bold**, \`code\` and a [link][home].

- one
- two

  still two
  1. nested

- three

| a | b |
|---|---|
| 1 | 2 |

\`\`\`python
x = "# no heading"

y = 2
\`\`\`
> quoted
> on

<script>alert(1)</script>

Last words
over two lines.

[home]: https://example.org
`;

const raws = (blocks: readonly Token[]) => blocks.map((block) => [block.type, block.raw]);

test("a text that grows word by word has the blocks of the whole text at every step", () => {
  const reader = new BlockReader();
  for (let length = 1; length <= TEXT.length; length++) {
    const soFar = TEXT.slice(0, length);
    assert.deepEqual(raws(reader.read(soFar, true)), raws(new Lexer().lex(soFar)), JSON.stringify(soFar.slice(-30)));
  }
  assert.deepEqual(reader.read(TEXT, false), [...new Lexer().lex(TEXT)]);
});

test("blocks that are complete are read once", () => {
  const reader = new BlockReader();
  const first = reader.read("one\n\ntwo\n\nthree\n\nfour", true);
  const second = reader.read("one\n\ntwo\n\nthree\n\nfour and more", true);
  assert.equal(second[0], first[0]);
  assert.notEqual(second.at(-1), first.at(-1));
});

test("a text that becomes another one is read anew", () => {
  const reader = new BlockReader();
  reader.read("one\n\ntwo\n\nthree\n\nfour", true);
  assert.deepEqual(raws(reader.read("# other", true)), [["heading", "# other"]]);
});

test("lines may end as they do on Windows", () => {
  assert.deepEqual(raws(new BlockReader().read("one\r\n\r\ntwo", true)), raws(new Lexer().lex("one\n\ntwo")));
});

test("what is nested too deep for any parser is text", () => {
  const deep = `${"> ".repeat(20_000)}x`;
  assert.deepEqual(raws(new BlockReader().read(deep, false)), [["text", deep]]);
});

test("a paragraph without an end is text until it has ended", () => {
  const long = "a **bold** word ".repeat(2_000);
  assert.deepEqual(raws(new BlockReader().read(long, true)), [["text", long]]);
  assert.equal(new BlockReader().read(long, false)[0]?.type, "paragraph");
});

test("headings never skip a level, whatever the model skips", () => {
  const levels = (text: string) => headingLevels(new Lexer().lex(text)).filter((level) => level);
  assert.deepEqual(levels("### a\n###### b\n# c\n## d\n## e\n"), [2, 3, 2, 3, 3]);
});
