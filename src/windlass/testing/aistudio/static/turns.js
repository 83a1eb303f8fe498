// The turns of the chat, as they stand in the page and as a request tells them.
import { changes, inside } from "./changes.js";
import { h, icon } from "./markup.js";
import { options } from "./options.js";
import { state } from "./state.js";

const TICK_MS = 500;

export const session = h("ms-chat-session", changes.roles ? { role: "log" } : {});
let number = 0;

/** A new turn at the end of the chat. `rerun` is called with it when its button is pressed. */
export function addTurn(role, rerun) {
  const turn = { role, chunks: [], started: performance.now(), number: ++number, rerun };
  drawTurn(turn);
  state.turns.push(turn);
  place(turn.element);
  scroll();
  return turn;
}

/** What stands in a turn besides its chunks. */
function notes(turn) {
  if (turn.role !== "Model") return [];
  if (changes.notes === "hidden") return [h("h2", { class: "cdk-visually-hidden" }, "Model response")];
  return changes.notes === "inside" ? [h("div", { class: "disclaimer" }, "Answers may be wrong.")] : [];
}

function place(element) {
  if (changes.order === "up") inside(session).prepend(element);
  else inside(session).append(element);
}

/** Makes all turns anew, as a page does whose data has changed. */
export function redraw() {
  for (const turn of state.turns) {
    const old = turn.element;
    if (changes.turn_ids === "new") turn.number = ++number;
    turn.chunks.forEach((chunk) => chunk.draw());
    drawTurn(turn);
    old.replaceWith(turn.element);
  }
  scroll();
}

function drawTurn(turn) {
  const { role } = turn;
  const again = { type: "button", "aria-label": "Rerun this turn", onclick: () => turn.rerun(turn) };
  const aria = changes.roles ? { role: "document" } : {};
  turn.content = h("div", { part: "turn_content", class: "turn-content", ...aria });
  turn.timer = h("span", { class: "timer" });
  const classes = `chat-turn-container ${role.toLowerCase()} render`;
  const id = changes.turn_ids === "none" ? {} : { id: `turn-${turn.number}` };
  const named = changes.roles ? { role: "article", "aria-label": role } : {};
  turn.element = h(
    "ms-chat-turn",
    { part: "turn", ...id, ...named },
    h(
      "div",
      { part: "turn_container", class: classes },
      h(
        "div",
        { class: "actions-container" },
        h("ms-run-button", {}, h("button", again, icon("refresh"))),
      ),
      h(
        "div",
        { part: "turn_role", class: "virtual-scroll-container", "data-turn-role": role },
        turn.content,
      ),
      h("div", { class: "turn-footer" }, turn.timer),
      changes.notes === "beside" ? h("div", { class: "disclaimer" }, "Answers may be wrong.") : null,
    ),
  );
}

export function addChunk(turn, chunk) {
  turn.chunks.push(chunk);
  if (isOnScreen(turn)) turn.content.append(chunk.element);
  session.scrollTop = session.scrollHeight;
  return chunk;
}

/** Takes away this turn and what follows it. */
export function removeFrom(place) {
  for (const turn of state.turns.splice(place)) turn.element.remove();
  scroll();
}

/** The calls of the turn that wait for an answer. */
export function pendingCalls(turn) {
  return turn.chunks.filter((chunk) => chunk.kind === "call" && chunk.response === null);
}

/** The chat in the shape of a Gemini request. */
export function contents() {
  return state.turns.flatMap((turn) => {
    const parts = turn.chunks.flatMap(partOf);
    const answered = turn.chunks.filter((chunk) => typeof chunk.response === "string");
    const said = { role: turn.role.toLowerCase(), parts };
    const told = { role: "user", parts: answered.map(responsePart) };
    return [said, told].filter((message) => message.parts.length > 0);
  });
}

// The timer of the last answer never rests: who waits for a quiet turn must not look at it.
setInterval(() => {
  const last = state.turns.at(-1);
  if (last?.role === "Model") {
    last.timer.textContent = `${((performance.now() - last.started) / 1000).toFixed(1)}s`;
  }
}, TICK_MS);

/** Only the last turns are on the screen; the others are empty, or not there at all. */
function scroll() {
  for (const turn of state.turns) {
    if (changes.virtual === "removed" && !isOnScreen(turn)) {
      turn.element.remove();
      continue;
    }
    const wanted = isOnScreen(turn) ? [...notes(turn), ...turn.chunks.map((chunk) => chunk.element)] : [];
    if (wanted.length !== turn.content.childElementCount) turn.content.replaceChildren(...wanted);
  }
}

function isOnScreen(turn) {
  const shown = options.visible_turns ?? Infinity;
  return state.turns.length - state.turns.indexOf(turn) <= shown;
}

function partOf(chunk) {
  switch (chunk.kind) {
    case "text":
      return [...chunk.images.map(({ mimeType, data }) => ({ inlineData: { mimeType, data } })), { text: chunk.text }];
    case "thought":
      return [{ text: chunk.text, thought: true }];
    case "call":
      return [{ functionCall: { name: chunk.name, args: objectIn(chunk.arguments, "arguments") } }];
    default:
      return [];
  }
}

function responsePart({ name, response }) {
  return { functionResponse: { name, response: objectIn(response, "output") } };
}

/** The JSON object in the text; other text becomes the value of `field`. */
function objectIn(text, field) {
  try {
    const value = JSON.parse(text);
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    return isObject ? value : { [field]: value };
  } catch {
    return { [field]: text };
  }
}
