// The chat page: the list of chats, one open chat, and the composer.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { loadModels, noModels, tools } from "../chat/models";
import { chats, onTabChange, storesChats, refreshChats } from "../chat/chats";
import { Composer } from "../chat/composer";
import { conversationAt, type Conversation } from "../chat/conversation";
import { useFocusBack } from "../focus";
import { useRefresh } from "../chat/refresh";
import { useStickyEnd } from "../chat/scroll";
import { Sidebar } from "../chat/sidebar";
import { Turn } from "../chat/turn";
import { useTitle } from "../title";
import "../styles/chat.css";

const REFRESH_INTERVAL = 4_000;

export function ChatPage({ chatId }: { chatId?: string }) {
  const conversation = conversationAt(chatId);
  const drawer = useSignal(false);
  const opener = useRef<HTMLButtonElement>(null);
  useFocusBack(drawer.value, opener);
  useClosedWhenWide(drawer);
  const { list, atEnd, toEnd } = useStickyEnd();
  useUpToDate(conversation, chatId);
  useEscapeStops(conversation);
  useTitle(conversation.title.value);
  return (
    <div class="chat" onClick={(event) => event.target === event.currentTarget && (drawer.value = false)}>
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
          <h1 class="grow">{conversation.title.value || "New chat"}</h1>
          {!storesChats.value && <span class="hint">Not saved: closing this page deletes the chat</span>}
        </div>
        <div class="talk" ref={list} tabIndex={0} role="region" aria-label="Messages">
          <div class="talk-inside">
            <Talk conversation={conversation} />
          </div>
        </div>
        {!atEnd.value && (
          <button type="button" class="small to-end" onClick={toEnd}>
            ↓ Scroll to end
          </button>
        )}
        {conversation.status.value !== "missing" && <Composer conversation={conversation} onSent={toEnd} />}
      </section>
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
      return <Welcome />;
    default:
      return <p class="talk-empty hint">Loading…</p>;
  }
}

const WITH_TOOLS = "The model can use these tools, and you see each call while it runs:";

function Welcome() {
  return (
    <div class="talk-empty">
      <h2>Start a chat</h2>
      <p class="hint">{tools.value.length ? WITH_TOOLS : "Write a message to start."}</p>
      <ul class="talk-tools">
        {tools.value.map((name) => (
          <li key={name}>
            <a href={`/tools/${encodeURIComponent(name)}`}>{name}</a>
          </li>
        ))}
      </ul>
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
    void conversation.refreshIfChanged(listed ? `${listed.updated} ${listed.runs} ${listed.running}` : "");
  }, [chats.value, conversation]);
  useEffect(() => {
    void refreshChats();
  }, [conversation.live.value]);
}

/** Closes the drawer when the window becomes wide enough for the column of chats. */
function useClosedWhenWide(drawer: Signal<boolean>): void {
  useEffect(() => {
    const narrow = matchMedia("(max-width: 48rem)");
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
      if (event.key === "Escape" && !closes) void conversation.stop();
    };
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, [conversation]);
}
