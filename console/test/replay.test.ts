import assert from "node:assert/strict";
import { test } from "node:test";
import { folded } from "../src/run/fold";
import { Player, readExport } from "../src/run/replay";
import type { RunEvent } from "../src/wire/types";
import { begun, called, numbered } from "./events";

const events = numbered(
  ...begun,
  { event: "text_delta", text: "Let me look." },
  { event: "tool_call_ended", index: 0, call: called("a") },
  { event: "tool_run_started", call: called("a"), round: 1 },
  { event: "tool_run_ended", outcome: "ok", response: { type: "function_response", id: "a", name: "look", response: { output: 1 } } },
  { event: "run_ended", reason: "answer" },
);

function file(change: Record<string, unknown> = {}): string {
  return JSON.stringify({ format: "windlass.run", version: 1, run: { id: "run_1", model: "m" }, events, ...change });
}

test("at every moment a replay shows what was known at that moment", () => {
  const player = new Player(events);
  assert.equal(player.seconds, 6);
  for (const seconds of [0, 0.5, 3, 2.9, 6, 4, 0, 100]) {
    const known = events.filter(({ time }) => time <= 100 + seconds);
    assert.deepEqual(player.at(seconds), folded(known), `after ${seconds} seconds`);
  }
});

test("a clock that was set back holds up nothing", () => {
  const times = [100, 105, 102, 106];
  const player = new Player(events.slice(0, 4).map((event, index) => ({ ...event, time: times[index] ?? 0 }) as RunEvent));
  assert.deepEqual([4, 5, 6].map((seconds) => player.at(seconds).lastSeq), [1, 3, 4]);
});

test("an exported file is read with its run and all its events", () => {
  const { run, events: told } = readExport(file());
  assert.deepEqual([run, told], [{ id: "run_1", model: "m" }, events]);
});

test("a file that is no export is refused with what is wrong with it", () => {
  const refused: [string, RegExp][] = [
    ["{", /invalid JSON/],
    ["[]", /no "format": "windlass.run"/],
    ["null", /no "format": "windlass.run"/],
    [file({ format: "other" }), /no "format": "windlass.run"/],
    [file({ version: 2 }), /version 2, and this console supports version 1/],
    [file({ version: "1" }), /damaged/],
    [file({ events: {} }), /damaged/],
    [file({ events: [{ seq: 1, time: 1 }] }), /damaged/],
    [file({ events: [...events, { event: "tool_run_started", seq: 99, time: 1 }] }), /damaged/],
    [file({ events: [] }), /no events/],
  ];
  for (const [text, why] of refused) assert.throws(() => readExport(text), why);
});
