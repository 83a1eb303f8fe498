// Dialogs: they mount in the overlay container, above a backdrop that takes every click.
import { h, icon } from "./markup.js";

const container = h("div", { class: "cdk-overlay-container" });
document.body.append(container);

/** Shows a dialog and returns the function that closes it. Escape does too, if it may. */
export function openDialog(content, { closable = true } = {}) {
  const backdrop = h("div", { class: "cdk-overlay-backdrop cdk-overlay-backdrop-showing" });
  const pane = h(
    "div",
    { class: "cdk-overlay-pane" },
    h("mat-dialog-container", { part: "dialog", role: "dialog", "aria-modal": "true" }, content),
  );
  const onKey = (event) => closable && event.key === "Escape" && close();
  const close = () => {
    backdrop.remove();
    pane.remove();
    document.removeEventListener("keydown", onKey);
  };
  document.addEventListener("keydown", onKey);
  container.append(backdrop, pane);
  return close;
}

/** Asks before something is lost. */
export function confirmLoss(proceed) {
  const cancel = h("button", { type: "button", onclick: () => close() }, "Cancel");
  const discard = h(
    "button",
    {
      part: "discard_button",
      type: "button",
      onclick: () => {
        close();
        proceed();
      },
    },
    "Discard and continue",
  );
  const question = h("h2", {}, "Discard this chat?");
  const close = openDialog(h("ms-confirm-dialog", {}, question, cancel, discard));
}

/** Asks for an opinion, in front of everything. */
export function openSurvey() {
  const later = h("button", { type: "button", onclick: () => close() }, "Not now");
  const close = openDialog(h("ms-survey", {}, h("h2", {}, "How was this answer?"), later), { closable: false });
}

/** A bar in front of the prompt that is no dialog; without `closable` only an agreement removes it. */
export function showBanner(closable) {
  const label = closable ? "Got it" : "I agree to the terms";
  const bar = h("div", { class: "banner" }, "We use cookies.", h("button", { type: "button", onclick: () => closable && bar.remove() }, label));
  document.body.append(bar);
}

/** What the page shows to newcomers, in front of everything. */
export function blockPage(closable) {
  const button = closable
    ? h("button", { type: "button", "aria-label": "Close", onclick: () => close() }, icon("close"))
    : null;
  const news = h("ms-welcome-dialog", {}, h("h2", {}, "What is new"), button);
  const close = openDialog(news, { closable });
}
