import assert from "node:assert/strict";
import { test } from "node:test";
import { announcements } from "../src/run/announcements";
import { firstWrong, numberOf, wrongWith } from "../src/chat/parameters";
import { NOTHING, answerOf, asked, joined, messageOf, requestFor, toolChoice, turnsOf, unfit } from "../src/chat/request";
import { NO_SETTINGS, settingsIn, type Settings } from "../src/chat/settings";
import { RunFold, folded } from "../src/run/fold";
import { withDefaults } from "../src/tools/info";
import { ago, dateGroup } from "../src/chat/time";
import type { Model } from "../src/wire/types";
import { begun, called, numbered } from "./events";

const SETTINGS: Settings = { model: "m", without: [], system: "", temperature: "", top_p: "", max_tokens: "", seed: "" };
const MODEL: Model = {
  id: "m",
  object: "model",
  created: 0,
  owned_by: "windlass",
  windlass: { tools: ["look", "pay"], mode: "native", max_rounds: 5, sessions: [], status: "ready", ready_in: null, target: "openai/m", title: "m", approval_timeout: 300, attachments: ["image"], examples: [] },
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
  const said = messageOf({ text: "Hello", images: [], files: [] });
  assert.deepEqual(requestFor(MODEL, SETTINGS, [said]), { model: "m", messages: [{ role: "user", content: "Hello" }] });
});

test("a request carries the system prompt first, and each parameter that was typed", () => {
  const settings = { ...SETTINGS, system: "Be brief.", temperature: " 0 ", top_p: "0.5", max_tokens: "100", seed: "7", without: ["pay", "look"] };
  assert.deepEqual(requestFor(MODEL, settings, [messageOf({ text: "Hello", images: [], files: [] })]), {
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
  const draft = { text: "What is this?", images: [PIXEL], files: [] };
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

test("a text file is text for the model, and a file again in the chat", () => {
  const draft = { text: "Sum it.", images: [], files: [{ name: 'a "b".csv', text: "x,y\n1,2" }] };
  const content = messageOf(draft).content as { type: string; text: string }[];
  assert.deepEqual(content[1], { type: "text", text: '<file name="a _b_.csv">\nx,y\n1,2\n</file>' });
  const parts = content.map(({ text }) => ({ type: "text" as const, text }));
  assert.deepEqual(asked([{ role: "user", parts }]), { ...draft, files: [{ name: "a _b_.csv", text: "x,y\n1,2" }] });
});

test("a PDF is a file for the model, with its name", () => {
  const draft = { text: "", images: [], files: [{ name: "a.pdf", url: "data:application/pdf;base64,AAAA" }] };
  assert.deepEqual(messageOf(draft).content, [{ type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" } }]);
  const part = { type: "inline_data" as const, data: "AAAA", mime_type: "application/pdf", extra: { openai: { file: { filename: "a.pdf" } } } };
  assert.deepEqual(asked([{ role: "user", parts: [part] }]), draft);
});

test("a model that cannot take an attachment is named, and one that can is not", () => {
  const draft = { ...NOTHING, images: [PIXEL], files: [{ name: "a.pdf", url: "data:application/pdf;base64,AAAA" }] };
  assert.equal(unfit(draft, MODEL), "The model m cannot read PDF files. Remove the attachment or choose another model.");
  assert.equal(unfit({ ...draft, files: [{ name: "a.txt", text: "a" }] }, MODEL), "");
  const none: Model = { ...MODEL, windlass: { ...MODEL.windlass, attachments: [] } };
  assert.match(unfit(draft, none), /cannot read images or PDF files/);
  assert.equal(unfit(draft, undefined), "");
});

test("chats are listed under the day, the week or the month of their last run", () => {
  const now = new Date(2026, 10, 17, 12).getTime() / 1000;
  const day = 24 * 60 * 60;
  const groups = [0, 1, 3, 20, 60].map((days) => dateGroup(now - days * day, now));
  assert.deepEqual(groups, ["Today", "Yesterday", "Last 7 days", "Last 30 days", "September 2026"]);
});

test("a time is told by how long ago it was, or by its date", () => {
  const now = new Date(2026, 10, 17, 12).getTime() / 1000;
  assert.deepEqual([5, 300, 7_200].map((seconds) => ago(now - seconds, now)), ["now", "5 min ago", "2 h ago"]);
  assert.match(ago(now - 9 * 24 * 60 * 60, now), /8/);
});

test("the arguments of a call have the defaults of those that the model left out", () => {
  const parameters = { properties: { city: { type: "string" }, nights: { type: "integer", default: 1, description: "How many." }, note: { type: "string" } } };
  assert.deepEqual(withDefaults(parameters, { city: "Oslo", extra: true }), [
    { name: "city", value: "Oslo", description: "", isDefault: false },
    { name: "nights", value: 1, description: "How many.", isDefault: true },
    { name: "extra", value: true, description: "", isDefault: false },
  ]);
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
  const first = { text: "one", images: [PIXEL], files: [] };
  assert.deepEqual(joined(first, { text: "two", images: [], files: [] }), { text: "one\n\ntwo", images: [PIXEL], files: [] });
  assert.deepEqual(joined(first, { text: "", images: [], files: [] }), first);
});
