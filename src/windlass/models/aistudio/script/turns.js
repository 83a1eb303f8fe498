// Reads turns: which of them are new, and what is in them.

const NOT_CONTENT = [
  'button, [role="button"], [role="toolbar"], [role="menu"], [role="tooltip"], svg, script, style, template',
  "footer, .actions-container, .turn-footer, .timer, .author-label, [class*='-footer'], [class*='timestamp']",
].join(", ");
/** What a turn may show beside its content: times, counts, a name. */
const HARMLESS = /^(\d[\d.,:]*\s*(s|ms|sec|min|tokens?)?|user|model|gemini|you)$/i;
const USER = /\b(user|human|you|me|prompt)\b/i;
const MODEL = /\b(model|assistant|gemini|ai|bot|response)\b/i;

const letters = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

const isObject = (text) => {
  try {
    const value = JSON.parse(text.replaceAll("<ctrl46>", '"'));
    return value !== null && typeof value === "object" && !Array.isArray(value);
  } catch {
    return false;
  }
};

// Calls.

const isKnown = (name, known) => {
  const plain = name.trim().replace(/^default_api[:.]/, "");
  const cut = plain.replace(/(…|\.\.\.)$/, "");
  return known.includes(plain) || (cut.length > 2 && known.filter((each) => each.startsWith(cut)).length === 1);
};

const leavesIn = (node) => {
  if (node.nodeType === 3) return node.data.trim() ? [node] : [];
  if (node.nodeType !== 1 || isIcon(node) || node.matches("pre, code, button, script, style")) return [];
  return childrenOf(node).flatMap(leavesIn);
};

/** Widgets of calls that no selector knows: a known name, an object of arguments, a field. */
const widgetsByShape = (turn, known) => {
  const widgets = new Map();
  if (!known.length) return widgets;
  const codes = allBy("pre, code", turn).filter((code) => isObject(code.textContent));
  for (const code of codes.filter((each) => !codes.some((other) => other !== each && contains(other, each)))) {
    for (let node = parentOf(code); node && contains(turn, node); node = parentOf(node)) {
      const named = leavesIn(node).some((leaf) => isKnown(leaf.data, known));
      if (!named || !(allBy("input, textarea", node).length || iconsIn(node).includes("function"))) continue;
      widgets.set(node, (widgets.get(node) ?? 0) + 1);
      break;
    }
  }
  for (const [node, count] of widgets) if (count > 1) widgets.delete(node);
  return widgets;
};

/** The call of a widget: its name, its arguments, and the element that is missing, if one is. */
const callIn = (widget, known) => {
  const named = one("call_name", widget);
  let name = named ? tidy(plainText(named)) : "";
  if (!isKnown(name, known)) {
    const others = leavesIn(widget).map((leaf) => leaf.data.trim()).filter((word) => isKnown(word, known));
    if (new Set(others).size === 1) name = others[0];
  }
  const code = one("call_arguments", widget) ?? allBy("*", widget).find((node) => isObject(node.textContent));
  return [name, code?.textContent ?? "", !name ? "call_name" : !code ? "call_arguments" : ""];
};

const fieldOf = (widget) => {
  for (let node = widget, level = 0; node && level < 3; node = parentOf(node), level += 1) {
    const field = one("call_answer", node) ?? allBy("input:not([type=hidden]), textarea", node)[0];
    if (field) return field;
  }
  return null;
};

// Thoughts.

const TITLES = "mat-panel-title, summary, mat-expansion-panel-header, [aria-expanded]";

/** The first thing in the node that may be a title: it is no part of rendered Markdown. */
const firstTitle = (node) => {
  const [first, second] = childrenOf(node).filter((child) => child.nodeType === 1 && !isIcon(child));
  return first && second && !BLOCKS.has(first.localName) && !hasBlocks(first) ? [first] : [];
};

const bodyOfThought = (node) => {
  const known = allBy(TITLES, node);
  const titles = known.length ? known : firstTitle(node);
  const wanted = known.length ? 1 : 2;
  const isThought =
    isA("thought", node) || /thought/.test(node.localName) || /thought/i.test(node.className) ||
    (titles.length > 0 && !isA("text", node) && !one("text", node) && likeness(titles.map(plainText), table.thought.names) >= wanted);
  if (!isThought) return null;
  const body = one("thought_body", node);
  if (body) return { body, skipped: [] };
  return { body: node, skipped: titles };
};

const thoughtIn = (node) => {
  const { body, skipped } = bodyOfThought(node);
  const words = (each) => {
    if (each.nodeType === 3) return each.data;
    if (skipped.includes(each) || isSilent(each)) return "";
    return childrenOf(each).map(words).join("");
  };
  return words(body).trim();
};

/** The parts of a turn in order, and the words that belong to none. */
const partsIn = (turn, known) => {
  const parts = [], rest = [];
  const content = one("turn_content", turn) ?? (isA("turn_content", turn) ? turn : null);
  const shapes = widgetsByShape(turn, known);
  const walk = (node) => {
    if (node.nodeType === 3) {
      if (node.data.trim() && (content || !HARMLESS.test(node.data.trim()))) rest.push(node);
      return;
    }
    if (node.nodeType !== 1 || isIcon(node)) return;
    if (isA("call", node) || shapes.has(node)) return parts.push({ kind: "call", node, call: callIn(node, known) });
    if (node.matches(NOT_CONTENT) || node.hidden || isForReaders(node) || isA("model_error", node)) return;
    if (node !== turn && bodyOfThought(node)) return parts.push({ kind: "thought", node, text: thoughtIn(node) });
    if (node.matches("input, textarea, select, form") || !isShownAtAll(node)) return;
    if (isA("text", node)) return parts.push({ kind: "text", node, ...markdownOf(node) });
    // Rendered Markdown in an element that no selector knows.
    if (content && (BLOCKS.has(node.localName) || codeIn(node))) {
      return parts.push({ kind: "text", node, ...wrapped(node) });
    }
    childrenOf(node).forEach(walk);
  };
  walk(content ?? turn);
  return { parts, rest };
};

const isShownAtAll = (node) => getComputedStyle(node).display !== "none";

const wrapped = (node) => {
  const marked = blockOf(node, { last: lastWords(node) }).join("\n\n");
  const at = marked.indexOf(END);
  return at < 0 ? { text: marked, tail: marked.length } : { text: marked.slice(0, at) + marked.slice(at + 1), tail: marked.length - at - 1 };
};

// Which turns are new.

const roleOf = (turn) => {
  const inside = [turn, ...allBy("[data-turn-role], [data-role], [data-author], .chat-turn-container", turn)];
  for (const node of inside) {
    for (const name of ["data-turn-role", "data-role", "data-author", "data-message-author-role", "aria-label"]) {
      const value = node.getAttribute(name);
      if (value && USER.test(value)) return "user";
      if (value && MODEL.test(value)) return "model";
      if (value && name === "aria-label" && likeness([value], table.user_turn.names)) return "user";
    }
    if (isA("user_turn", node)) return "user";
    if (node.classList.contains("model")) return "model";
  }
  return "";
};

const keyOf = (turn, turns) => {
  for (let node = turn; node; node = parentOf(node)) {
    if (node !== turn && turns.some((other) => other !== turn && contains(node, other))) return "";
    const key = node.id || node.dataset.turnId || node.dataset.messageId || node.dataset.id;
    if (key) return key;
  }
  return "";
};

const signOf = ({ parts }) => parts.map((part) => part.kind === "call" ? `call ${part.call[0]} ${letters(part.call[1])}` : letters(part.text));

/** A turn of the page. Its content is read when it is needed: a long chat has many turns. */
class ShownTurn {
  constructor(node, turns, known) {
    this.node = node;
    this.key = keyOf(node, turns);
    this.role = roleOf(node);
    this.known = known;
  }
  get content() {
    return (this.read ??= partsIn(this.node, this.known));
  }
  get parts() {
    return this.content.parts;
  }
  get rest() {
    return this.content.rest;
  }
  get sign() {
    return signOf(this.content);
  }
}

/** Whether the node is drawn, also if it has no box of its own. */
const isDrawn = (node) =>
  node.checkVisibility() ||
  (getComputedStyle(node).display === "contents" && childrenOf(node).some((child) => child.nodeType === 1 && isDrawn(child)));

const turnsNow = (known) => {
  const turns = all("turn", document).filter(isDrawn);
  return turns.map((node) => new ShownTurn(node, turns, known));
};

const isSame = (old, now, isLast) => {
  if (old.role && now.role && old.role !== now.role) return false;
  if (!old.sign.join("") || !now.sign.join("")) return true; // the page empties turns off the screen
  return old.sign.every((part, place) => now.sign[place] === part) && (isLast || old.sign.length === now.sign.length);
};

/** How many turns at the start of `now` are the last ones of `before`. */
const overlapOf = (before, now) => {
  for (let count = Math.min(before.length, now.length); count > 0; count -= 1) {
    const old = before.slice(-count);
    if (old.every((turn, place) => isSame(turn, now[place], place === count - 1))) return count;
  }
  return 0;
};

/** Splits the turns of the page: `old` of them were there before; null if that is not clear. */
const oldTurns = (before, now, isGiven) => {
  if (!before.length || !now.length) return 0;
  const keys = now.map((turn) => turn.key);
  const hasIds = [...keys, ...before.map((turn) => turn.key)].every(Boolean) && new Set(keys).size === keys.length;
  if (hasIds) {
    const old = new Set(before.map((turn) => turn.key));
    const last = keys.findLastIndex((key) => old.has(key));
    if (last >= 0) return last + 1;
  }
  // The page made its turns anew, without their ids, or shows none of the old ones.
  const count = overlapOf(before, now);
  if (count) return count;
  const knowsRoles = now.every((turn) => turn.role);
  return (hasIds && knowsRoles) || isGiven(now[0]) ? 0 : null;
};
