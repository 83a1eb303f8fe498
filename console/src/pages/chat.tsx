// The chat: conversations beside, one of them in the middle, and what is written next beneath it.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { loadModels, noModels, tools } from "../chat/catalog";
import { chats, hear, kept, refreshChats } from "../chat/chats";
import { Composer } from "../chat/composer";
import { conversationAt, type Conversation } from "../chat/conversation";
import { useFocusBack } from "../focus";
import { useRefresh } from "../chat/refresh";
import { useStickyEnd } from "../chat/scroll";
import { Sidebar } from "../chat/sidebar";
import { Turn } from "../chat/turn";
import { useTitle } from "../title";
import "../styles/chat.css";

const LOOK_AGAIN = 4_000;

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
          {!kept.value && <span class="hint">Not kept: gone with this page</span>}
        </div>
        <div class="talk" ref={list} tabIndex={0} role="region" aria-label="Messages">
          <div class="talk-inside">
            <Talk conversation={conversation} />
          </div>
        </div>
        {!atEnd.value && (
          <button type="button" class="small to-end" onClick={toEnd}>
            ↓ To the end
          </button>
        )}
        {conversation.standing.value !== "missing" && <Composer conversation={conversation} onSent={toEnd} />}
      </section>
    </div>
  );
}

function Talk({ conversation }: { conversation: Conversation }) {
  const runIds = conversation.runIds.value;
  if (runIds.length && conversation.standing.value !== "missing") {
    return (
      <>
        {runIds.map((runId, index) => (
          <Turn key={runId} conversation={conversation} runId={runId} last={index === runIds.length - 1} />
        ))}
      </>
    );
  }
  switch (conversation.standing.value) {
    case "missing":
      return (
        <p class="talk-empty">
          There is no such chat: it was deleted, or never was. <a href="/">Begin a new one.</a>
        </p>
      );
    case "away":
      return <p class="talk-empty">The gateway cannot be reached. This page tries again by itself.</p>;
    case "new":
      return <Welcome />;
    default:
      return <p class="talk-empty hint">Loading…</p>;
  }
}

const WITH_TOOLS = "The model may use these tools, and you see what they do while they do it:";

function Welcome() {
  return (
    <div class="talk-empty">
      <h2>What shall be done?</h2>
      <p class="hint">{tools.value.length ? WITH_TOOLS : "Write a message to begin."}</p>
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

/** Runs that were begun in other places appear here, too. */
function useUpToDate(conversation: Conversation, chatId: string | undefined): void {
  const refresh = () => {
    if (chatId) void conversation.refresh();
  };
  useEffect(() => {
    void loadModels();
    conversation.enter();
    refresh();
  }, [conversation]);
  useEffect(() => hear((changed) => {
    void refreshChats();
    if (changed === chatId) refresh();
  }), [conversation]);
  useRefresh(async () => {
    if (kept.value) await refreshChats();
    if (noModels.value) await loadModels();
  }, LOOK_AGAIN);
  useEffect(() => {
    const listed = chats.value?.find(({ id }) => id === chatId);
    void conversation.refreshIfChanged(listed ? `${listed.updated} ${listed.runs} ${listed.running}` : "");
  }, [chats.value, conversation]);
  useEffect(() => {
    void refreshChats();
  }, [conversation.live.value]);
}

/** A window that is made wide has the chats beside: what lay under the drawer can be used again. */
function useClosedWhenWide(drawer: Signal<boolean>): void {
  useEffect(() => {
    const narrow = matchMedia("(max-width: 48rem)");
    const changed = () => (drawer.value &&= narrow.matches);
    narrow.addEventListener("change", changed);
    return () => narrow.removeEventListener("change", changed);
  }, []);
}

/** Escape is left to whoever is in something that it closes. */
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
