import assert from "node:assert/strict";
import { test } from "node:test";
import { folded } from "../src/run/fold";
import { errorIn, resultOf, manualRunMessage } from "../src/run/payload";
import { aftermathOf, budgetOf, durationOf, effectLabel, foldedCalls, lasted, wholeSeconds, tokensOf, usageOf } from "../src/run/labels";
import type { CallView, RoundView } from "../src/run/view";
import { begun, called, numbered, type PlainEvent } from "./events";

function round(number: number, toolsOff = false): RoundView {
  return { number, toolsOff, startedAt: 0, usage: {}, items: [], superseded: false, rejected: false };
}

function ended(id: string, outcome: "ok" | "stopped" | "not_run" | "interrupted", unknown = false): PlainEvent {
  const response = { type: "function_response" as const, id, name: id, response: { error: outcome } };
  return { event: "tool_run_ended", response, outcome, effect_unknown: unknown };
}

test("the duration of an active run reaches to now, and at least to its last event", () => {
  const view = folded(numbered(...begun));
  assert.equal(durationOf(view, 105), 5);
  assert.equal(durationOf(view, 100.2), 1);
});

test("the budget appears in the last round with tools, and when tools are off", () => {
  assert.equal(budgetOf(round(3), 5), "");
  assert.equal(budgetOf(round(5), 5), "Round 5 of 5");
  assert.equal(budgetOf(round(6, true), 5), "Tools off: final answer");
  assert.equal(budgetOf(round(2), null), "");
  assert.equal(budgetOf(round(1), 1), "");
  assert.equal(budgetOf(round(6), 5), "All 5 tool rounds used");
});

test("finished calls are one line, with what went wrong", () => {
  const calls = [
    { name: "look", state: "output-available", startedAt: 10, endedAt: 12 },
    { name: "look", state: "output-error", startedAt: 11, endedAt: 14.1 },
    { name: "pay", state: "denied", endedAt: 13 },
  ] as unknown as CallView[];
  assert.deepEqual(foldedCalls(calls), { label: "3 tools, 4.1 s", trouble: "1 failed, 1 denied", names: "look ×2, pay" });
  assert.deepEqual(foldedCalls([{ name: "pay", state: "cancelled" } as unknown as CallView]), { label: "1 tool", trouble: "1 cancelled", names: "pay" });
});

test("a stop tells what never began, what is safe, what may have had an effect and what had ended", () => {
  const names = ["mail", "look", "pay", "done"];
  const view = folded(
    numbered(
      ...begun,
      ...names.map((name): PlainEvent => ({ event: "tool_call_ended", index: 0, call: called(name, name) })),
      { event: "tool_call_started", index: 4, id: "half", name: "half" },
      ...["mail", "look", "done"].map((name): PlainEvent => ({ event: "tool_run_started", call: called(name, name), round: 1 })),
      ended("done", "ok"),
      ended("mail", "stopped", true),
      ended("look", "stopped"),
      ended("pay", "not_run"),
      { event: "run_ended", reason: "stopped" },
    ),
  );
  const { confirmed, unknown, finished } = aftermathOf(view);
  const named = (calls: { name: string }[]) => calls.map(({ name }) => name);
  assert.deepEqual([named(confirmed), named(unknown), named(finished)], [["look", "pay", "half"], ["mail"], ["done"]]);
  assert.deepEqual([...unknown, ...confirmed].map(effectLabel), [
    "It was interrupted while running and may have had an effect.",
    "It was interrupted and is safe to run again.",
    "It never started.",
    "It never started.",
  ]);
});

test("a run's tokens are those of all its rounds, also of one that was asked again", () => {
  const turn: PlainEvent = { event: "turn_ended", finish: "stop", usage: { input_tokens: 1_000, output_tokens: 20 } };
  const view = folded(numbered(...begun, turn, { event: "round_restarted", round: 1, phase: "awaiting_model_call" }, turn));
  assert.equal(tokensOf(usageOf(view)), "2,000 tokens in, 40 out");
  assert.equal(tokensOf({}), "");
});

test("times are as short as they can be read", () => {
  const told = [-1, 0, 0.0123, 0.9996, 1.25, 59.94, 59.96, 125, 3599.6, 7260].map(lasted);
  assert.deepEqual(told, ["0 ms", "0 ms", "12 ms", "1.0 s", "1.3 s", "59.9 s", "1 min", "2 min 5 s", "1 h", "2 h 1 min"]);
});

test("a time that counts down has no fraction", () => {
  assert.deepEqual([0, 4.6, 60, 125, 3600].map(wholeSeconds), ["0 s", "5 s", "1 min", "2 min 5 s", "1 h"]);
});

test("an error is the text that the model reads, and anything else is a result", () => {
  assert.equal(errorIn({ error: "No." }), "No.");
  assert.equal(errorIn({ output: { error: "No." } }), undefined);
  assert.equal(resultOf({ response: { output: 0 } }), 0);
  assert.deepEqual(resultOf({ response: { rows: 2 } }), { rows: 2 });
  const picture = { type: "inline_data" as const, data: "QQ==", mime_type: "image/png" };
  assert.deepEqual(resultOf({ response: { output: "a" }, parts: [picture] }), ["a", picture]);
});

test("what is told to the model is bounded", () => {
  assert.equal(manualRunMessage("look", { at: "sea" }, "calm"), 'I ran look manually with {"at":"sea"}. It returned:\n\ncalm');
  const long = manualRunMessage("look", {}, "x".repeat(30_000));
  assert(long.length < 20_200);
  assert.match(long, /10000 more characters omitted/);
});
