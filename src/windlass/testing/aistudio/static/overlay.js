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

/** What the page shows to newcomers, in front of everything. */
export function blockPage(closable) {
  const button = closable
    ? h("button", { type: "button", "aria-label": "Close", onclick: () => close() }, icon("close"))
    : null;
  const news = h("ms-welcome-dialog", {}, h("h2", {}, "What is new"), button);
  const close = openDialog(news, { closable });
}
