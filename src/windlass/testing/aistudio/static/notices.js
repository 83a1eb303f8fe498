// What the page tells its user beside the chat: toasts, callouts, the count of tokens.
import { inside } from "./changes.js";
import { said } from "./markdown.js";
import { h, icon } from "./markup.js";
import { options } from "./options.js";

export const toasts = h("ms-toast-container", {});
export const callouts = h("div", { class: "callouts" });
export const tokens = h("span", { part: "token_count", class: "v3-token-count-value" });

export function showToast(message, level) {
  const text = h("span", { class: "content-text" }, said(message));
  inside(toasts).append(h("div", { part: "toast", class: `toast ${level}`, role: "alert" }, text));
}

export function showCallout(message) {
  if (callouts.textContent.includes(message)) return;
  const text = h("div", { class: "message" }, said(message));
  callouts.append(h("ms-callout", { part: "callout", class: "error-callout" }, icon("error"), text));
}

/** Notices of an earlier request do not stand beside the next one, unless they are to. */
export function clearNotices() {
  if (options.notices_stay) return;
  inside(toasts).replaceChildren();
  callouts.replaceChildren();
}

export function showTokens({ input, output, total }) {
  if (!options.token_counts) return;
  tokens.textContent = `${total.toLocaleString("en")} tokens`;
  tokens.title = `Input ${input.toLocaleString("en")}, output ${output.toLocaleString("en")}`;
}

export function hideTokens() {
  tokens.textContent = "";
  tokens.title = "";
}
