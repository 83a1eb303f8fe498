import assert from "node:assert/strict";
import { test } from "node:test";
import { RunFold, folded } from "../src/run/fold";
import type { CallState } from "../src/run/view";
import type { RunEvent, ToolRunEnded } from "../src/wire/types";
import { begun, called, chance, numbered, type PlainEvent } from "./events";

const said: PlainEvent[] = [
  { event: "tool_call_started", index: 0, id: "a", name: "look" },
  { event: "tool_call_delta", index: 0, json: '{"at":' },
  { event: "tool_call_delta", index: 0, json: '"sea"}' },
  { event: "tool_call_ended", index: 0, call: called("a", "look", '{"at":"sea"}') },
];

function ended(outcome: ToolRunEnded["outcome"], more: Partial<ToolRunEnded> = {}): PlainEvent {
  const response = { type: "function_response" as const, id: "a", name: "look", response: { output: 1 } };
  return { event: "tool_run_ended", response, outcome, ...more };
}

function theCall(...events: PlainEvent[]) {
  const call = folded(numbered(...begun, ...events)).calls.get("a");
  assert(call);
  return call;
}

test("a call's arguments can be read while they stream", () => {
  const call = theCall(...said.slice(0, 2));
  assert.deepEqual([call.state, call.input, call.saidAt], ["input-streaming", '{"at":', 102]);
});

test("each event of a call brings it into its state", () => {
  const asked: PlainEvent = { event: "approval_requested", call: called("a"), reason: "It costs." };
  const yes: PlainEvent = { event: "approval_resolved", call_id: "a", approved: true };
  const no: PlainEvent = { event: "approval_resolved", call_id: "a", approved: false, reason: "No." };
  const runs: PlainEvent = { event: "tool_run_started", call: called("a"), round: 1 };
  const steps: [CallState, PlainEvent[]][] = [
    ["input-streaming", said.slice(0, 1)],
    ["input-available", said],
    ["approval-requested", [...said, asked]],
    ["input-available", [...said, asked, yes]],
    ["denied", [...said, asked, no]],
    ["running", [...said, asked, yes, runs]],
    ["output-available", [...said, runs, ended("ok")]],
  ];
  for (const [state, events] of steps) assert.equal(theCall(...events).state, state);
});

test("every outcome is a state that a person understands", () => {
  const states: Record<ToolRunEnded["outcome"], CallState> = {
    ok: "output-available",
    error: "output-error",
    invalid_arguments: "output-error",
    unknown_tool: "output-error",
    timeout: "output-error",
    interrupted: "output-error",
    denied: "denied",
    stopped: "cancelled",
    not_run: "cancelled",
  };
  for (const [outcome, state] of Object.entries(states) as [ToolRunEnded["outcome"], CallState][]) {
    const call = theCall(...said, ended(outcome, { effect_unknown: true, seconds: 2 }));
    assert.deepEqual([call.state, call.outcome, call.effectUnknown, call.seconds], [state, outcome, true, 2]);
  }
});

test("what a person decides stands beside what they were asked", () => {
  const call = theCall(
    ...said,
    { event: "approval_requested", call: called("a"), reason: "It costs." },
    { event: "approval_resolved", call_id: "a", approved: true, arguments: { at: "lake" } },
  );
  const { asked, answered, approved, why, arguments: instead } = call.approval ?? assert.fail();
  assert.deepEqual({ asked, answered, approved, why, instead }, { asked: 106, answered: 107, approved: true, why: "It costs.", instead: { at: "lake" } });
});

test("progress is the newest alone", () => {
  const call = theCall(
    ...said,
    { event: "tool_run_started", call: called("a"), round: 1 },
    { event: "tool_run_progress", call_id: "a", name: "look", progress: 0.25, message: "first" },
    { event: "tool_run_progress", call_id: "a", name: "look", message: "second" },
  );
  assert.deepEqual([call.progress?.fraction, call.progress?.message], [null, "second"]);
});

test("words of one kind are one item, in the order in which they were said", () => {
  const [round] = folded(
    numbered(
      ...begun,
      { event: "thought_delta", text: "Hm" },
      { event: "thought_delta", text: "." },
      { event: "text_delta", text: "One " },
      { event: "text_delta", text: "two" },
      ...said,
      { event: "text_delta", text: "After." },
      { event: "turn_ended", finish: "tool_calls", usage: { output_tokens: 7 } },
    ),
  ).rounds;
  assert.deepEqual(round?.items, [
    { kind: "thought", text: "Hm." },
    { kind: "text", text: "One two" },
    { kind: "call", id: "a" },
    { kind: "text", text: "After." },
  ]);
  assert.deepEqual([round?.finish, round?.usage.output_tokens, round?.endedAt], ["tool_calls", 7, 111]);
});

test("a round that is asked again is superseded, and the next begins with nothing", () => {
  const view = folded(
    numbered(
      ...begun,
      { event: "text_delta", text: "Cut o" },
      { event: "run_resumed", attempt: 2 },
      { event: "round_restarted", round: 1, phase: "awaiting_model_call" },
      { event: "text_delta", text: "Whole." },
    ),
  );
  assert.deepEqual(
    view.rounds.map(({ number, superseded, items }) => ({ number, superseded, items })),
    [
      { number: 1, superseded: true, items: [{ kind: "text", text: "Cut o" }] },
      { number: 1, superseded: false, items: [{ kind: "text", text: "Whole." }] },
    ],
  );
  assert.deepEqual(view.resumedAt, [103]);
});

test("the last round is known to be without tools", () => {
  const view = folded(
    numbered(
      ...begun,
      { event: "status", message: "Maximum tool execution rounds reached. Generating final response..." },
      { event: "round_started", round: 2, phase: "awaiting_final_response", tools_off: true },
    ),
  );
  assert.deepEqual(view.rounds.map((round) => round.toolsOff), [false, true]);
  assert.equal(view.maxRounds, 3);
});

test("an end says why, and is an end", () => {
  const fold = new RunFold();
  for (const event of numbered(...begun, { event: "run_ended", reason: "error", error: "It broke.", rounds: 1 })) fold.add(event);
  const view = fold.view();
  assert.deepEqual([fold.ended, view.reason, view.error, view.endedAt], [true, "error", "It broke.", 102]);
});

// Any events at all, in any order: a fold has to take what comes, and take it in any pieces.

const WORDS = ["", "a", "word ", '{"k": "', "é😀\n"];

function anyEvents(seed: number): RunEvent[] {
  const dice = chance(seed);
  const oneOf = <T>(...options: T[]): T => options[dice(options.length)] as T;
  const id = () => oneOf("a", "b", "c");
  const text = () => oneOf(...WORDS);
  const phase = () => oneOf("awaiting_model_call" as const, "awaiting_final_response" as const);
  const response = (): ToolRunEnded["response"] => ({ type: "function_response", id: id(), name: "look", response: { output: text() } });
  const makers: (() => PlainEvent)[] = [
    () => ({ event: "round_started", round: 1 + dice(3), phase: phase() }),
    () => ({ event: "round_restarted", round: 1 + dice(3), phase: phase() }),
    () => ({ event: "run_resumed", attempt: 2 }),
    () => ({ event: "text_delta", text: text() }),
    () => ({ event: "thought_delta", text: text() }),
    () => ({ event: "part_received", part: { type: "inline_data", mime_type: "image/png", data: "" } }),
    () => ({ event: "tool_call_started", index: dice(3), id: id(), name: "look" }),
    () => ({ event: "tool_call_delta", index: dice(3), json: text() }),
    () => ({ event: "tool_call_ended", index: dice(3), call: called(id()) }),
    () => ({ event: "turn_ended", finish: oneOf("stop", "tool_calls"), usage: { output_tokens: dice(9) } }),
    () => ({ event: "status", message: text() }),
    () => ({ event: "approval_requested", call: called(id()) }),
    () => ({ event: "approval_resolved", call_id: id(), approved: dice(2) === 0 }),
    () => ({ event: "tool_run_started", call: called(id()), round: 1 }),
    () => ({ event: "tool_run_progress", call_id: id(), name: "look", progress: dice(9) / 9 }),
    () => ({ event: "tool_run_ended", response: response(), outcome: oneOf("ok", "error", "stopped", "denied") }),
  ];
  const middle = Array.from({ length: dice(60) }, () => oneOf(...makers)());
  return numbered(...(dice(4) ? begun : []), ...middle, ...(dice(2) ? [{ event: "run_ended", reason: "answer" } as PlainEvent] : []));
}

const SEEDS = Array.from({ length: 500 }, (_, seed) => seed);

test("events in any pieces, some of them twice, come to the same run", () => {
  for (const seed of SEEDS) {
    const events = anyEvents(seed);
    const dice = chance(seed + 1);
    const fold = new RunFold();
    let taken = 0;
    while (taken < events.length) {
      // A reader that connects again may be sent what it has.
      const from = Math.max(0, taken - dice(5));
      taken = Math.min(events.length, taken + 1 + dice(7));
      for (const event of events.slice(from, taken)) fold.add(event);
      if (dice(2)) fold.view();
    }
    assert.deepEqual(fold.view(), folded(events), `seed ${seed}`);
  }
});

test("a view that was given stays as it is, and what has not changed is the same value", () => {
  for (const seed of SEEDS) {
    const fold = new RunFold();
    let before = fold.view();
    for (const event of anyEvents(seed)) {
      const copy = structuredClone(before);
      fold.add(event);
      const now = fold.view();
      assert.deepEqual(before, copy, `seed ${seed}, event ${event.seq}`);
      for (const [id, call] of before.calls) {
        if (JSON.stringify(call) === JSON.stringify(now.calls.get(id)) && event.event.startsWith("text")) {
          assert.equal(call, now.calls.get(id), `seed ${seed}: the call is made anew for nothing`);
        }
      }
      for (const [index, round] of before.rounds.slice(0, -1).entries()) {
        assert.equal(round, now.rounds[index], `seed ${seed}: a round that is over is made anew`);
      }
      before = now;
    }
  }
});

test("every call that a round shows is known, and every call is shown once", () => {
  for (const seed of SEEDS) {
    const view = folded(anyEvents(seed));
    const shown = view.rounds.flatMap((round) => round.items.flatMap((item) => (item.kind === "call" ? [item.id] : [])));
    for (const id of shown) assert(view.calls.has(id), `seed ${seed}`);
    assert.equal(new Set(shown).size, shown.length, `seed ${seed}`);
  }
});
