import assert from "node:assert/strict";
import { test } from "node:test";
import { announcements } from "../src/run/announcements";
import { firstWrong, numberOf, wrongWith } from "../src/chat/parameters";
import { answerOf, asked, joined, messageOf, requestFor, toolChoice, turnsOf } from "../src/chat/request";
import { NO_SETTINGS, settingsIn, type Settings } from "../src/chat/settings";
import { RunFold, folded } from "../src/run/fold";
import type { Model } from "../src/wire/types";
import { begun, called, numbered } from "./events";

const SETTINGS: Settings = { model: "m", without: [], system: "", temperature: "", top_p: "", max_tokens: "", seed: "" };
const MODEL: Model = {
  id: "m",
  object: "model",
  created: 0,
  owned_by: "windlass",
  windlass: { tools: ["look", "pay"], mode: "native", max_rounds: 5, sessions: [], status: "ready", ready_in: null },
};
const PIXEL = "data:image/png;base64,AAAA";

test("all tools are offered without a word, none is one, and some are named", () => {
  assert.equal(toolChoice(["look", "pay"], []), undefined);
  assert.equal(toolChoice(["look", "pay"], ["another model's"]), undefined);
  assert.equal(toolChoice(["look", "pay"], ["look", "pay"]), "none");
  assert.deepEqual(toolChoice(["look", "pay"], ["pay"]), {
    type: "allowed_tools",
    allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "look" } }] },
  });
  assert.equal(toolChoice([], ["pay"]), undefined);
});

test("a request without settings says nothing but the model and the message", () => {
  const said = messageOf({ text: "Hello", images: [] });
  assert.deepEqual(requestFor(MODEL, SETTINGS, [said]), { model: "m", messages: [{ role: "user", content: "Hello" }] });
});

test("a request carries the system prompt first, and each parameter that was typed", () => {
  const settings = { ...SETTINGS, system: "Be brief.", temperature: " 0 ", top_p: "0.5", max_tokens: "100", seed: "7", without: ["pay", "look"] };
  assert.deepEqual(requestFor(MODEL, settings, [messageOf({ text: "Hello", images: [] })]), {
    model: "m",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ],
    tool_choice: "none",
    temperature: 0,
    top_p: 0.5,
    max_completion_tokens: 100,
    seed: 7,
  });
});

test("a parameter that cannot be is named with what it may be", () => {
  assert.equal(firstWrong(SETTINGS), "");
  assert.equal(numberOf({ ...SETTINGS, seed: "7" }, "seed"), 7);
  assert.equal(wrongWith({ ...SETTINGS, temperature: "2.5" }, "temperature"), "Temperature must be a number between 0 and 2.");
  assert.equal(wrongWith({ ...SETTINGS, top_p: "much" }, "top_p"), "Top p must be a number between 0 and 1.");
  assert.equal(firstWrong({ ...SETTINGS, max_tokens: "1.5" }), "Max tokens must be a whole number.");
});

test("a message with pictures comes back out of a run as it was written", () => {
  const draft = { text: "What is this?", images: [PIXEL] };
  assert.deepEqual(messageOf(draft).content, [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url: PIXEL } },
  ]);
  const began = [
    { role: "system" as const, parts: [{ type: "text" as const, text: "Be brief." }] },
    { role: "user" as const, parts: [{ type: "text" as const, text: "Before" }] },
    { role: "assistant" as const, parts: [{ type: "text" as const, text: "Yes." }] },
    {
      role: "user" as const,
      parts: [
        { type: "text" as const, text: "What is this?" },
        { type: "inline_data" as const, data: "AAAA", mime_type: "image/png" },
      ],
    },
  ];
  assert.deepEqual(asked(began), draft);
});

const RUN = numbered(
  ...begun,
  { event: "text_delta", text: "I look." },
  { event: "tool_call_started", index: 0, id: "c1", name: "look" },
  { event: "tool_call_ended", index: 0, call: called("c1", "look", '{"at": 1}') },
  { event: "turn_ended", finish: "tool_calls" },
  { event: "tool_run_started", call: called("c1", "look", '{"at": 1}'), round: 1 },
  { event: "tool_run_ended", response: { type: "function_response", id: "c1", name: "look", response: { output: "seen" } }, outcome: "ok" },
  { event: "round_started", round: 2, phase: "awaiting_model_call" },
  { event: "text_delta", text: "Cut" },
  { event: "round_restarted", round: 2, phase: "awaiting_model_call" },
  { event: "thought_delta", text: "Hm." },
  { event: "text_delta", text: "Seen." },
  { event: "turn_ended", finish: "stop" },
  { event: "run_ended", reason: "answer" },
);

test("what a run has said and done goes into the next request, without what was superseded", () => {
  assert.deepEqual(turnsOf(folded(RUN)), [
    { role: "assistant", content: "I look.", tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: '{"at": 1}' } }] },
    { role: "tool", tool_call_id: "c1", content: '{"output":"seen"}' },
    { role: "assistant", content: "Seen." },
  ]);
  assert.equal(answerOf(folded(RUN)), "I look.\n\nSeen.");
});

test("a call that was never answered does not go into the next request", () => {
  const cut = folded(RUN.slice(0, 5));
  assert.deepEqual(turnsOf(cut), [{ role: "assistant", content: "I look." }]);
});

test("announcements are said once each, and text never", () => {
  const fold = new RunFold();
  let before = fold.view();
  const said = RUN.flatMap((event) => {
    fold.add(event);
    const after = fold.view();
    const now = announcements(before, after);
    before = after;
    return now;
  });
  assert.deepEqual(said, ["The model is answering.", "look is running.", "look is done.", "The answer is complete."]);
});

test("who comes to a run that goes hears what goes on now, not what was before", () => {
  const later = numbered(...begun, { event: "approval_requested", call: called("c2", "pay") });
  assert.deepEqual(announcements(undefined, folded(RUN.slice(0, 7))), ["The model is answering.", "look is running."]);
  assert.deepEqual(announcements(undefined, folded(RUN.slice(0, 8))), ["The model is answering."]);
  assert.deepEqual(announcements(undefined, folded(later)), ["The model is answering.", "pay needs your approval."]);
});

test("a run that had ended before it was looked at is not announced", () => {
  assert.deepEqual(announcements(undefined, folded(RUN)), []);
});

test("what many calls have in common is said once", () => {
  const many = [1, 2, 3].map((index) => ({ event: "tool_run_started" as const, round: 1, call: called(`call_${index}`) }));
  const pay = { event: "tool_run_started" as const, round: 1, call: called("call_4", "pay") };
  const view = folded(numbered(...begun, ...many, pay));
  assert.deepEqual(announcements(undefined, view), ["The model is answering.", "look is running, 3 times.", "pay is running."]);
});

test("settings of another kind than these are left out", () => {
  assert.deepEqual(settingsIn('{"model": "m", "temperature": 5, "without": "pay", "seed": null, "colour": "red"}'), { ...NO_SETTINGS, model: "m" });
  for (const text of ["", "null", "[]", "7", "{"]) assert.deepEqual(settingsIn(text), NO_SETTINGS);
});

test("what was not sent stands before what was written since", () => {
  const first = { text: "one", images: [PIXEL] };
  assert.deepEqual(joined(first, { text: "two", images: [] }), { text: "one\n\ntwo", images: [PIXEL] });
  assert.deepEqual(joined(first, { text: "", images: [] }), first);
});
