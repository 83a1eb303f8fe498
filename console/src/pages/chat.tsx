// The chat page: the list of chats, one open chat, and the composer.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { loadModels, model, noModels, preparationOf, tools } from "../chat/models";
import { chats, onTabChange, storesChats, refreshChats } from "../chat/chats";
import { Composer } from "../chat/composer";
import { conversationAt, type Conversation } from "../chat/conversation";
import { selectAll, useFocusBack } from "../focus";
import { focusEditor } from "../chat/focus";
import { SidePanel, closePanel, isShown, panel, togglePanel } from "../chat/panel";
import { useRefresh } from "../chat/refresh";
import { NOTHING } from "../chat/request";
import { useStickyEnd } from "../chat/scroll";
import { Sidebar } from "../chat/sidebar";
import { Turn } from "../chat/turn";
import { Logo } from "../parts/logo";
import { HelpLink, searchField, searchRequests } from "../shortcuts";
import { useTitle } from "../title";
import "../styles/chat.css";

const NARROW = "(max-width: 48rem)";
const REFRESH_INTERVAL = 4_000;

export function ChatPage({ chatId }: { chatId?: string }) {
  const conversation = conversationAt(chatId);
  const drawer = useSignal(false);
  const opener = useRef<HTMLButtonElement>(null);
  useFocusBack(drawer.value, opener);
  useClosedWhenWide(drawer);
  useSearchRequests(drawer);
  const runs = conversation.runIds.value.length > 0;
  const { list, atEnd, toEnd } = useStickyEnd(runs);
  useUpToDate(conversation, chatId);
  useEscapeStops(conversation);
  useTitle(conversation.title.value);
  return (
    <div class="chat" data-panel={panel.value !== undefined} onClick={(event) => event.target === event.currentTarget && (drawer.value = false)}>
      <Sidebar here={chatId} open={drawer} />
      <section class="chat-main" aria-label="Conversation" inert={drawer.value}>
        <div class="row chat-bar">
          <button
            type="button"
            class="small"
            ref={opener}
            aria-expanded={drawer.value}
            aria-controls="chats"
            onClick={() => (drawer.value = true)}
          >
            Chats
          </button>
          <h1 class={runs ? "grow" : "unseen"}>{conversation.title.value || "New chat"}</h1>
          {!storesChats.value && <span class="hint">Not saved: closing this page deletes the chat</span>}
        </div>
        <div class="talk" ref={list} tabIndex={0} role="region" aria-label="Messages">
          <div class="talk-inside">
            <Talk conversation={conversation} />
          </div>
        </div>
        {!atEnd.value && (
          <div class="to-end">
            <button type="button" class="small" onClick={toEnd}>↓ Scroll to end</button>
          </div>
        )}
        {conversation.status.value !== "missing" && <Composer conversation={conversation} onSent={toEnd} />}
      </section>
      <SidePanel conversation={conversation} />
    </div>
  );
}

function Talk({ conversation }: { conversation: Conversation }) {
  const runIds = conversation.runIds.value;
  if (runIds.length && conversation.status.value !== "missing") {
    return (
      <>
        {runIds.map((runId, index) => (
          <Turn key={runId} conversation={conversation} runId={runId} last={index === runIds.length - 1} />
        ))}
      </>
    );
  }
  switch (conversation.status.value) {
    case "missing":
      return (
        <p class="talk-empty">
          This chat does not exist or was deleted. <a href="/">Start a new chat.</a>
        </p>
      );
    case "unreachable":
      return <p class="talk-empty">Cannot reach the gateway. Retrying…</p>;
    case "new":
      return <Welcome conversation={conversation} />;
    default:
      return <p class="talk-empty hint">Loading…</p>;
  }
}

const MAX_EXAMPLES = 4;
const MAX_TOOLS = 16;

/** The empty state: a greeting, prompts to begin with, and the tools of the model. */
function Welcome({ conversation }: { conversation: Conversation }) {
  const served = model.value;
  const preparation = preparationOf(served);
  const begin = (text: string) => {
    conversation.draft.value = { ...conversation.draft.value, text };
    void conversation.send(conversation.draft.value).then((sent) => {
      if (sent) conversation.draft.value = NOTHING;
      focusEditor();
    });
  };
  return (
    <div class="talk-empty">
      <Logo size={48} />
      <h2>Hello. What can I do for you?</h2>
      {served && (
        <p class="hint">
          You are talking to <strong>{served.windlass.title}</strong>. <HelpLink />
        </p>
      )}
      {preparation && (
        <p class="preparation">
          {preparation}. You can ask now: the answer follows as soon as the model is ready.
        </p>
      )}
      <ul class="examples" aria-label="Examples">
        {served?.windlass.examples.slice(0, MAX_EXAMPLES).map((text) => (
          <li key={text}>
            <button type="button" onClick={() => begin(text)}>{text}</button>
          </li>
        ))}
      </ul>
      {tools.value.length > 0 && (
        <>
          <p class="hint">The model can use these tools. Each call is visible while it runs.</p>
          <ul class="talk-tools" aria-label="Tools">
            {tools.value.slice(0, MAX_TOOLS).map((name) => {
              const content = { kind: "tool", name } as const;
              return (
                <li key={name}>
                  <button type="button" aria-expanded={isShown(content)} onClick={() => togglePanel(content)}>{name}</button>
                </li>
              );
            })}
            {tools.value.length > MAX_TOOLS && <li><a href="/tools">All {tools.value.length} tools</a></li>}
          </ul>
        </>
      )}
    </div>
  );
}

/** Loads runs that were started in other tabs or by other clients. */
function useUpToDate(conversation: Conversation, chatId: string | undefined): void {
  const refresh = () => {
    if (chatId) void conversation.refresh();
  };
  useEffect(() => {
    void loadModels();
    conversation.enter();
    refresh();
  }, [conversation]);
  useEffect(() => onTabChange((changed) => {
    void refreshChats();
    if (changed === chatId) refresh();
  }), [conversation]);
  useRefresh(async () => {
    if (storesChats.value) await refreshChats();
    if (noModels.value) await loadModels();
  }, REFRESH_INTERVAL);
  useEffect(() => {
    const listed = chats.value?.find(({ id }) => id === chatId);
    void conversation.refreshIfChanged(listed ? `${listed.updated} ${listed.runs} ${listed.running} ${listed.title}` : "");
  }, [chats.value, conversation]);
  useEffect(() => {
    void refreshChats();
  }, [conversation.live.value]);
}

/** Ctrl+K: opens the list of chats where it is a drawer, and focuses its search field. */
function useSearchRequests(drawer: Signal<boolean>): void {
  const asked = searchRequests.value;
  useEffect(() => {
    if (!asked) return;
    searchRequests.value = 0;
    drawer.value = matchMedia(NARROW).matches;
    requestAnimationFrame(() => selectAll(searchField()));
  }, [asked]);
}

/** Closes the drawer when the window becomes wide enough for the column of chats. */
function useClosedWhenWide(drawer: Signal<boolean>): void {
  useEffect(() => {
    const narrow = matchMedia(NARROW);
    const changed = () => (drawer.value &&= narrow.matches);
    narrow.addEventListener("change", changed);
    return () => narrow.removeEventListener("change", changed);
  }, []);
}

/** Escape stops the run, unless it closes something. */
function useEscapeStops(conversation: Conversation): void {
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const closes = event.defaultPrevented || event.isComposing || event.target instanceof HTMLSelectElement;
      if (event.key !== "Escape" || closes || document.querySelector("dialog[open]")) return;
      if (panel.value) closePanel();
      else void conversation.stop();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [conversation]);
}
