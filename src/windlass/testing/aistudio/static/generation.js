// From a prompt or the answers to calls to the model's next turn.
import { changes } from "./changes.js";
import { callChunk, errorChunk, textChunk, thoughtChunk } from "./chunks.js";
import { clearNotices, showCallout, showToast, showTokens } from "./notices.js";
import { openSurvey } from "./overlay.js";
import { options } from "./options.js";
import { eventsOf, tell } from "./server.js";
import { changed, state } from "./state.js";
import { addChunk, addTurn, contents, pendingCalls, redraw, removeFrom } from "./turns.js";

const FAILED = "Failed to generate content. Please try again.";

/** Adds the prompt to the chat and asks for an answer. */
export function ask(prompt, images = []) {
  addChunk(addTurn("User", rerun), textChunk(prompt, images));
  generate({ prompt, answers: [] });
}

export function stop() {
  const generation = state.generation;
  if (generation === null) return;
  generation.next = null;
  generation.abort.abort();
  tell("stopped", {});
}

/** The chat is gone, and with it what was being written. */
export function clearChat() {
  stop();
  removeFrom(0);
}

function rerun(turn) {
  if (state.generation !== null) return;
  let place = state.turns.indexOf(turn);
  while (place > 0 && state.turns[place].role !== "User") place -= 1;
  removeFrom(place + 1);
  generate({ prompt: state.turns[place].chunks[0].text, answers: [] });
}

async function generate(reason) {
  clearNotices();
  const generation = {
    abort: new AbortController(),
    answer: null,
    isThought: false,
    chunks: [],
    ended: false,
    next: null,
  };
  state.generation = generation;
  const request = requestFor(reason);
  changed();
  try {
    for await (const event of eventsOf(request, generation.abort.signal)) {
      // A task of its own for each, so that who watches the page sees each apart.
      await new Promise((resolve) => setTimeout(resolve));
      if (generation.abort.signal.aborted) return;
      PLAYED[event.type](event, generation);
      if (changes.redraw === "each") redraw();
    }
    if (!generation.ended) throw new Error("the answer broke off");
  } catch (error) {
    if (!generation.abort.signal.aborted) fail(error, generation);
  } finally {
    settle(generation);
  }
}

function requestFor({ prompt, answers }) {
  const { model, switches, declarations, system, settings } = state;
  return { model, prompt, answers, switches, declarations, system, settings, contents: contents() };
}

function settle(generation) {
  if (state.generation !== generation) return;
  state.generation = null;
  changed();
  if (changes.redraw === "end") redraw();
  if (changes.surprise === "survey") openSurvey();
  if (generation.next !== null) goOn(generation.next);
}

const PLAYED = {
  thought: ({ text }, generation) => grow(generation, "thought", text, thoughtChunk),
  text: ({ text }, generation) => grow(generation, "text", text, textChunk),
  call: (event, generation) => {
    const turn = turnFor(generation, "call");
    const chunk = callChunk(event, () => answered(turn));
    generation.chunks.push(addChunk(turn, chunk));
  },
  arguments: ({ index, text }, generation) => generation.chunks[index].fill(text),
  call_again: ({ index }, generation) => generation.chunks[index].renderAgain(),
  toast: ({ message, level }) => showToast(message, level),
  error: (event, generation) => fail(event, generation),
  idle: (_, generation) => settle(generation),
  end: ({ usage }, generation) => {
    generation.ended = true;
    if (generation.answer === null) generation.answer = addTurn("Model", rerun);
    showTokens(usage);
  },
};

function grow(generation, kind, text, make) {
  const turn = turnFor(generation, kind);
  const last = turn.chunks.at(-1);
  (last?.kind === kind ? last : addChunk(turn, make())).grow(text);
}

/** The turn that the chunk belongs to: thoughts have one of their own. */
function turnFor(generation, kind) {
  const isThought = kind === "thought";
  if (generation.answer === null || generation.isThought !== isThought) {
    generation.answer = addTurn("Model", rerun);
    generation.isThought = isThought;
  }
  return generation.answer;
}

/** Goes on when enough of the turn's calls have their answers, after what is being written. */
function answered(turn) {
  if (options.resume === "all" && pendingCalls(turn).length > 0) return;
  if (state.generation === null) goOn(turn);
  else state.generation.next = turn;
}

function goOn(turn) {
  const fresh = turn.chunks.filter((chunk) => typeof chunk.response === "string" && !chunk.told);
  const answers = fresh.map((chunk) => {
    chunk.told = true;
    return { name: chunk.name, arguments: chunk.arguments, response: chunk.response };
  });
  generate({ prompt: null, answers });
}

function fail(error, generation) {
  generation.ended = true;
  const message = error.where === undefined ? FAILED : error.message;
  switch (error.where) {
    case "callout":
      return showCallout(message);
    case "turn":
      return addChunk(turnFor(generation, "error"), errorChunk(message));
    default:
      return showToast(message, "error");
  }
}
