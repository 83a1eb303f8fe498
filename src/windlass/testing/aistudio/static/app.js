// The page, put together.
import { clearChat } from "./generation.js";
import { h, icon } from "./markup.js";
import { callouts, clearNotices, hideTokens, toasts, tokens } from "./notices.js";
import { options } from "./options.js";
import { blockPage, confirmLoss } from "./overlay.js";
import { promptForm } from "./prompt.js";
import { passed } from "./server.js";
import { runSettings } from "./settings.js";
import { resetTools, state } from "./state.js";
import { session } from "./turns.js";

await passed("page");
document.body.prepend(
  h(
    "ms-app",
    {},
    h("nav", {}, newChatButton()),
    h(
      "main",
      {},
      h("ms-toolbar", {}, h("ms-token-count", { "data-test-id": "token-count" }, tokens)),
      session,
      callouts,
      promptForm(),
    ),
    runSettings(),
    toasts,
  ),
);
if (options.overlay !== null) blockPage(options.overlay === "closable");

function newChatButton() {
  const onclick = () => (state.turns.length ? confirmLoss(newChat) : newChat());
  const button = { part: "new_chat", type: "button", "aria-label": "New chat", onclick };
  return h("button", button, icon("add"));
}

function newChat() {
  clearChat();
  clearNotices();
  hideTokens();
  if (options.new_chat_resets) resetTools();
}
