import assert from "node:assert/strict";
import { test } from "node:test";
import { beginning, pictureOf, sizeOf, textOf, withoutPictures } from "../src/parts/format";

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
