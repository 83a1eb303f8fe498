// How this page differs from the known one: see `Changes` in variants.py.
import { options } from "./options.js";

export const changes = options.changes;
const LABELS = new Set(["aria-label", "placeholder", "title"]);
const DROPPED = new Set(changes.dropped);
const SHADOWED = new Set(changes.shadowed);
const closedRoots = new WeakMap();

export function tagOf(tag) {
  return changes.tags[tag] ?? tag;
}

export function classOf(names) {
  return names.split(" ").map((name) => changes.classes[name] ?? name).filter(Boolean).join(" ");
}

export function isDropped(name) {
  return DROPPED.has(name);
}

/** The label in the page's language. */
export function translated(text) {
  return changes.words[text.trim()] ?? text;
}

export function attributeOf(name, value) {
  return LABELS.has(name) ? translated(value) : value;
}

/** Where the content of this element belongs: in the element, or in its shadow root. */
export function inside(element) {
  return closedRoots.get(element) ?? element.shadowRoot ?? element;
}

export function withShadow(element, tag) {
  if (!SHADOWED.has(tag)) return;
  const root = element.attachShadow({ mode: changes.shadow === "closed" ? "closed" : "open" });
  closedRoots.set(element, root);
}
