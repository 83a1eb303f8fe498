// Keyboard shortcuts for the whole page, and the help sheet that lists them.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { startNewChat } from "./chat/conversation";
import { selectAll } from "./focus";
import { go, path } from "./router";

/** Whether the device has a keyboard, as far as a browser knows: one of its pointers can hover, such as a mouse. */
export const hasKeyboard = matchMedia("(any-hover: hover)").matches;

/** Whether the help sheet is open. */
export const helpOpen = signal(false);
/** Counts the requests to search: the chat page opens its drawer and focuses the search field. */
export const searchRequests = signal(0);

const KEYS: readonly [keys: readonly string[], meaning: string][] = [
  [["Enter"], "Send the message, or queue it while a run is active"],
  [["Shift", "Enter"], "New line"],
  [["Escape"], "Stop the run, or close what is open"],
  [["Ctrl", "K"], "Search chats"],
  [["Ctrl", "Shift", "O"], "New chat"],
  [["/"], "Write a message"],
  [["a"], "Approve the selected call"],
  [["e"], "Edit the arguments of the selected call"],
  [["d"], "Deny the selected call"],
  [["Ctrl", "Enter"], "On a tool's page: call the tool"],
  [["?"], "This help"],
];

/** Handles the shortcuts that work on every page. */
export function useShortcuts(): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      const action = actionFor(event);
      if (!action) return;
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}

function actionFor(event: KeyboardEvent): (() => void) | undefined {
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (key === "k" && !event.shiftKey && !event.altKey) return searchChats;
    return key === "o" && event.shiftKey ? newChat : undefined;
  }
  if (event.altKey || isField(event.target) || document.querySelector("dialog[open]")) return undefined;
  if (key === "?") return () => (helpOpen.value = true);
  return key === "/" ? writeMessage : undefined;
}

export function searchField(): HTMLInputElement | null {
  return document.querySelector(".chats-search");
}

function searchChats(): void {
  // Immediately if possible: the user may already be typing.
  const field = searchField();
  if (field?.checkVisibility()) return selectAll(field);
  if (!onChatPage()) go("/");
  searchRequests.value++;
}

function newChat(): void {
  startNewChat();
  go("/");
  writeMessage();
}

function writeMessage(): void {
  if (!onChatPage()) go("/");
  requestAnimationFrame(() => document.querySelector<HTMLElement>(".composer textarea")?.focus());
}

function onChatPage(): boolean {
  return path.value === "/" || path.value.startsWith("/chats/");
}

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea, select");
}

/** A link that opens the help sheet. */
export function HelpLink({ children = "Help" }: { children?: string }) {
  const open = (event: MouseEvent) => {
    event.preventDefault();
    helpOpen.value = true;
  };
  return (
    <a href="#help" class="help-link" title="Help and keyboard shortcuts (?)" onClick={open}>
      {children}
    </a>
  );
}

export function HelpSheet() {
  const sheet = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) sheet.current?.showModal();
  }, [helpOpen.value]);
  if (!helpOpen.value) return null;
  const close = () => (helpOpen.value = false);
  return (
    <dialog class="sheet" ref={sheet} aria-labelledby="help-title" onClose={close} onClick={(event) => event.target === sheet.current && close()}>
      <header class="row">
        <h1 class="grow" id="help-title">Help</h1>
        <button type="button" class="plain" aria-label="Close help" onClick={close}>
          ×
        </button>
      </header>
      <p>Ask a question. If the model needs a tool, you see the call while it runs. A tool that needs approval waits for your decision.</p>
      <p>
        Under an answer, <strong>Timeline</strong> shows how long each step took, and <strong>View run</strong> opens the whole record. <a href="/runs" onClick={close}>Runs</a> lists all runs, and <a href="/tools" onClick={close}>Tools</a> lists all tools.
      </p>
      <section class="shortcuts">
        <h2>Keyboard shortcuts</h2>
        <dl class="keys">
          {KEYS.map(([keys, meaning]) => (
            <div key={meaning}>
              <dt>{keys.map((key, index) => <>{index > 0 && " + "}<kbd>{key}</kbd></>)}</dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <p class="hint">On a Mac, use ⌘ instead of Ctrl.</p>
      </section>
      <p class="hint">
        The API of this gateway is described at <a href="/openapi.json" target="_blank">/openapi.json</a>.
      </p>
    </dialog>
  );
}
