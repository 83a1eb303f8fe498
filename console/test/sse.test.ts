import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, type ServerEvent } from "../src/wire/sse";
import { chance } from "./events";

const STREAM = [
  ": the beginning\n\n",
  'id: 1\nevent: text_delta\ndata: {"text": "a: b\\n\\ndata: c"}\n\n',
  "id: 2\r\ndata: {}\r\n\r\n",
  ":\n\n",
  "data: first\ndata: second\nid: 3\n\n",
  'id: 4\ndata:{"é": "😀"}\n\n',
  "id: 5\ndata: never whole",
].join("");

const EVENTS: ServerEvent[] = [
  { id: "1", data: '{"text": "a: b\\n\\ndata: c"}' },
  { id: "2", data: "{}" },
  { id: "3", data: "first\nsecond" },
  { id: "4", data: '{"é": "😀"}' },
];

/** What comes of the bytes when they arrive in these pieces, as they do over a connection. */
function read(pieces: Uint8Array[]): ServerEvent[] {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  return pieces.flatMap((piece) => parser.feed(decoder.decode(piece, { stream: true })));
}

const BYTES = new TextEncoder().encode(STREAM);

test("the events of a stream, without comments and without what is not whole", () => {
  assert.deepEqual(read([BYTES]), EVENTS);
});

test("two pieces, cut at any byte, give the same events", () => {
  for (let at = 0; at <= BYTES.length; at++) {
    assert.deepEqual(read([BYTES.slice(0, at), BYTES.slice(at)]), EVENTS, `cut at ${at}`);
  }
});

test("pieces of any sizes give the same events", () => {
  for (let seed = 0; seed < 200; seed++) {
    const dice = chance(seed);
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < BYTES.length; ) {
      const next = at + 1 + dice(9);
      pieces.push(BYTES.slice(at, next));
      at = next;
    }
    assert.deepEqual(read(pieces), EVENTS, `seed ${seed}`);
  }
});
