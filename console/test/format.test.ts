import assert from "node:assert/strict";
import { test } from "node:test";
import { beginning, isFlat, oneLine, pictureOf, shownOf, sizeOf, textOf, withoutPictures } from "../src/parts/format";
import { completed, objectIn, writtenSoFar } from "../src/run/payload";

test("a string is shown as it is, and other values as JSON in lines", () => {
  assert.equal(textOf("a\nb"), "a\nb");
  assert.equal(textOf({ a: [1] }), '{\n  "a": [\n    1\n  ]\n}');
  assert.equal(textOf(null), "null");
  assert.equal(textOf(undefined), "");
});

test("the beginning of a text never ends in half a character", () => {
  assert.equal(beginning("ab😀", 3), "ab");
  assert.equal(beginning("ab😀", 4), "ab😀");
});

test("sizes are said in words that people use", () => {
  assert.deepEqual([340, 20_000, 999_499, 999_500, 2_100_000].map(sizeOf), ["340 B", "20 kB", "999 kB", "1.0 MB", "2.1 MB"]);
});

test("images are known by their kind, in the three forms that tools give them in", () => {
  const picture = { mime: "image/png", data: "AAAA" };
  assert.deepEqual(pictureOf({ type: "inline_data", mime_type: "image/png", data: "AAAA" }), picture);
  assert.deepEqual(pictureOf({ type: "image", mimeType: "image/png", data: "AAAA" }), picture);
  assert.deepEqual(pictureOf("data:image/png;base64,AAAA"), picture);
  for (const other of ["data:text/html;base64,AAAA", { mime_type: "text/html", data: "AAAA" }, "image/png", null, 3]) {
    assert.equal(pictureOf(other), null);
  }
});

test("the bytes of images are left out of the text beside them", () => {
  const image = { mime_type: "image/png", data: "A".repeat(4_000) };
  const { rest, pictures } = withoutPictures({ sky: "blue", parts: [image, "text"] });
  assert.equal(pictures.length, 1);
  assert.deepEqual(rest, { sky: "blue", parts: ["(image/png, 3 kB, shown below)", "text"] });
});

test("signs that turn the writing round are seen in JSON", () => {
  assert.equal(textOf({ payee: "\u202eAnn" }), '{\n  "payee": "\\u202eAnn"\n}');
  assert.deepEqual(JSON.parse(textOf(["\u2066a\u2069"])), ["\u2066a\u2069"]);
});

test("a text beside its name has quotes only if it would look like something else", () => {
  for (const plain of ["Paris", "two\nlines", "2 litres", 'the "best" one', "C:\\users", "مرحبا"]) assert.equal(shownOf(plain), plain);
  for (const other of ["", " Paris", "7", "true", "null", "{}", "\u0007", "a\u200bb"]) assert.equal(shownOf(other), JSON.stringify(other));
  assert.equal(shownOf("\u202eAnn"), '"\\u202eAnn"');
  assert.equal(shownOf(7), "7");
  assert.equal(shownOf(["a"]), '["a"]');
});

test("an object on one line is its names and values", () => {
  assert.equal(oneLine({ city: "Paris", nights: 2, in: null }), "city: Paris, nights: 2, in: null");
  assert.equal(oneLine({ text: "a\n  b" }), "text: a b");
  assert.equal(oneLine({}), "{}");
  assert.equal(oneLine([1, 2]), "[1,2]");
  assert.deepEqual([1, "a", null, [], ["a", 1]].map(isFlat), [true, true, true, true, true]);
  assert.deepEqual([{}, [{}], [[]]].map(isFlat), [false, false, false]);
});

test("arguments that are being written are shown as far as they are complete", () => {
  const whole = '{"city": "Paris, \\"Texas\\"", "days": [1, 2], "more": {"a": {"b": 1}}, "on": true}';
  for (let end = 1; end <= whole.length; end++) {
    const part = completed(whole.slice(0, end));
    assert.equal(part === "" || objectIn(part) !== undefined, true);
  }
  assert.equal(writtenSoFar('{"city": "Par', 100), "city: Par");
  assert.equal(writtenSoFar('{"city": "Paris", "day', 100), "city: Paris");
  assert.equal(writtenSoFar('{"city": "Paris", "days": 2', 100), "city: Paris\ndays: 2");
  assert.equal(writtenSoFar('{"ci', 100), "");
  assert.equal(writtenSoFar('{"text": "a long text', 4), "text");
  const long = `{"text": "${"a".repeat(30_000)}`;
  assert.equal(writtenSoFar(long, 10), "a".repeat(10));
});
