// Elements in the markup of the variant that is served. Only DOM calls: Trusted Types forbid HTML.
import { attributeOf, classOf, inside, isDropped, tagOf, translated, withShadow } from "./changes.js";
import { options } from "./options.js";

const RENAMED_IN_NEWER = {
  "chat-turn-container": "turn-shell",
  "virtual-scroll-container": "turn-viewport",
  "turn-content": "turn-body",
  "cmark-node": "markdown-node",
  "edit-function-declarations-button": "declarations-action",
  "stoppable-spinner": "run-progress",
  "mat-expansion-panel-body": "panel-body",
  "settings-tool": "tool-setting",
};
const MISSING_IN_OLDER = new Set(["data-test-id", "data-turn-role"]);
const NAMELESS = "x-renamed";

export const isOlder = options.variant === "older";

/** An element. A `part` that is broken keeps its children and its listeners, and nothing else. */
export function h(tag, { part, ...attributes } = {}, ...children) {
  const element = document.createElement(options.broken.includes(part) ? NAMELESS : tagOf(tag));
  withShadow(element, tag);
  mark(element, attributes);
  const shown = children.filter((child) => child !== null && child !== undefined);
  inside(element).append(...shown.map((child) => (typeof child === "string" ? translated(child) : child)));
  return element;
}

/** Sets attributes (null takes one away) and, for names like `onclick`, adds listeners. */
export function mark(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === null || isLost(element, name)) {
      element.removeAttribute(name);
    } else {
      element.setAttribute(name, name === "class" ? classes(value) : attributeOf(name, value));
    }
  }
}

/** An icon, which the page writes as the name of a glyph. */
export function icon(name) {
  return h("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, name);
}

function isLost(element, name) {
  return element.localName === NAMELESS || isDropped(name) || (isOlder && MISSING_IN_OLDER.has(name));
}

function classes(names) {
  if (options.variant !== "newer") return classOf(names);
  return classOf(names.split(" ").map((name) => RENAMED_IN_NEWER[name] ?? name).join(" "));
}
