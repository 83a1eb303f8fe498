import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf, tickLabel, ticksOf, rowText } from "../src/run/axis";
import { folded } from "../src/run/fold";
import { begun, called, numbered, type PlainEvent } from "./events";

const two: PlainEvent[] = [
  { event: "tool_call_ended", index: 0, call: called("a") }, // 102
  { event: "tool_call_ended", index: 1, call: called("b", "pay") },
  { event: "turn_ended", finish: "tool_calls", usage: { input_tokens: 1_200, output_tokens: 30 } },
  { event: "approval_requested", call: called("b", "pay") }, // 105
  { event: "tool_run_started", call: called("a"), round: 1 },
  { event: "approval_resolved", call_id: "b", approved: true },
  { event: "tool_run_started", call: called("b", "pay"), round: 1 }, // 108
];

function answered(id: string, outcome: "ok" | "error"): PlainEvent {
  return { event: "tool_run_ended", outcome, response: { type: "function_response", id, name: id, response: {} } };
}

function rows(...events: PlainEvent[]) {
  return rowsOf(folded(numbered(...begun, ...events)));
}

test("a round and each of its calls have a row, at the seconds since the run began", () => {
  const [model, look, pay] = rows(...two, answered("a", "ok"));
  assert.deepEqual(model?.bars, [{ kind: "model", from: 1, to: 4 }]);
  assert.deepEqual([look?.label, look?.bars], ["look", [{ kind: "tool", from: 6, to: 9 }]]);
  assert.deepEqual(pay?.bars, [
    { kind: "approval", from: 5, to: 7 },
    { kind: "tool", from: 8 },
  ]);
});

test("a call has the values of its arguments beside its name, if they are short", () => {
  const given = (json: string) => rows({ event: "tool_call_ended", index: 0, call: called("a", "look", json) })[1]?.given;
  assert.deepEqual(['{"city": "Rome", "days": 2}', "{}", "no JSON"].map(given), ["Rome, 2", "", ""]);
  assert.equal(given(JSON.stringify({ text: "x".repeat(1_000) })), "");
});

test("what goes on has no end until the run has one", () => {
  assert.equal(rows()[0]?.bars[0]?.to, undefined);
  const ended: PlainEvent = { event: "run_ended", reason: "error", error: "x" };
  assert.deepEqual(rows(ended)[0]?.bars, [{ kind: "model", from: 1, to: 2 }]);
  assert.equal(rows(...two, ended)[2]?.bars[1]?.to, 9);
});

test("a round that was asked again ends where the next one begins", () => {
  const [first, second] = rows({ event: "text_delta", text: "a" }, { event: "round_restarted", round: 1, phase: "awaiting_model_call" });
  assert.deepEqual([first?.label, first?.bars[0]?.to], ["Round 1, retried", 3]);
  assert.deepEqual([second?.label, second?.bars[0]?.to], ["Round 1", undefined]);
});

test("each row is told in a sentence, with tokens and what went wrong", () => {
  const [model, look, pay] = rows(...two, answered("a", "error"));
  assert(model && look && pay);
  assert.equal(rowText(model, 10), "Round 1: the model took 3.0 s, from 1.0 s to 4.0 s; 1,200 tokens in, 30 out.");
  assert.equal(rowText(look, 10), "look: ran 3.0 s, from 6.0 s to 9.0 s; failed.");
  assert.equal(rowText(pay, 10), "pay: waited for approval 2.0 s, from 5.0 s to 7.0 s; ran 2.0 s, from 8.0 s to now; running.");
  assert.deepEqual([model.note, look.note, pay.note], ["1,200 tokens in, 30 out", "failed", ""]);
});

test("an axis of any length has a few marks at round numbers", () => {
  assert.deepEqual(ticksOf(11).map(tickLabel), ["5 s", "10 s"]);
  assert.deepEqual(ticksOf(0.7).map(tickLabel), ["200 ms", "400 ms", "600 ms"]);
  assert.deepEqual(ticksOf(0), []);
  for (let span = 0.0004; span < 1e6; span *= 1.37) {
    const ticks = ticksOf(span);
    assert(ticks.length >= 1 && ticks.length <= 5, `${ticks.length} marks on ${span}`);
    assert(ticks.every((tick) => tick > 0 && tick < span));
  }
});
