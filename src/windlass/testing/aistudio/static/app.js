// The page, put together.
import { clearChat } from "./generation.js";
import { h, icon } from "./markup.js";
import { callouts, clearNotices, hideTokens, toasts, tokens } from "./notices.js";
import { options } from "./options.js";
import { changes } from "./changes.js";
import { blockPage, confirmLoss, showBanner } from "./overlay.js";
import { promptForm } from "./prompt.js";
import { passed } from "./server.js";
import { runSettings } from "./settings.js";
import { resetTools, state } from "./state.js";
import { session } from "./turns.js";

await passed("page");
const app = h(
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
);
if (changes.hydration) {
  // First what a server has drawn, which reacts to nothing; then the page that works.
  const drawn = app.cloneNode(true);
  document.body.prepend(drawn);
  await new Promise((resolve) => setTimeout(resolve, 1000 * changes.hydration));
  drawn.replaceWith(app);
} else {
  document.body.prepend(app);
}
if (changes.mirror) {
  // As for a narrow screen: it is there, but not drawn.
  const copy = h("aside", { class: "mobile" });
  copy.hidden = true;
  document.body.append(copy);
  new MutationObserver(() => copy.replaceChildren(session.cloneNode(true))).observe(session, { subtree: true, childList: true, characterData: true });
}
if (changes.surprise === "banner" || changes.surprise === "consent") showBanner(changes.surprise === "banner");
if (options.overlay !== null) blockPage(options.overlay === "closable");

function newChatButton() {
  const onclick = () => (state.turns.length ? confirmLoss(newChat) : newChat());
  const button = { part: "new_chat", type: "button", "aria-label": "New chat", onclick };
  return h("button", button, icon("add"));
}

function newChat() {
  if (changes.new_chat === "reloads") return location.reload();
  clearChat();
  clearNotices();
  hideTokens();
  if (options.new_chat_resets) resetTools();
}
