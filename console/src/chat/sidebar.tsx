// The list of stored chats: a column, or a drawer on narrow screens.
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { alarm, announce } from "../announce";
import { go } from "../router";
import { refusal } from "../wire/api";
import type { Chat } from "../wire/types";
import { chats, deleteChat } from "./chats";
import { startNewChat } from "./conversation";
import { useFocusBack } from "../focus";
import { ago } from "./time";

const STEP = 100;

interface SidebarProps {
  here: string | undefined;
  open: Signal<boolean>;
}

export function Sidebar({ here, open }: SidebarProps) {
  const place = useRef<HTMLElement>(null);
  const most = useSignal(STEP);
  useEffect(() => {
    if (open.value) place.current?.querySelector<HTMLElement>("a, button")?.focus();
  }, [open.value]);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open.value) return;
    event.preventDefault();
    open.value = false;
  };
  const begin = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    startNewChat();
    open.value = false;
  };
  const listed = chats.value ?? [];
  return (
    <nav class="chats" id="chats" ref={place} aria-label="Chats" data-open={open.value} onKeyDown={leave}>
      {open.value && <h1 class="unseen">Chats</h1>}
      <div class="row">
        <a class="chats-new grow" href="/" onClick={begin}>
          New chat
        </a>
        <button type="button" class="plain chats-close" aria-label="Close chat list" onClick={() => (open.value = false)}>
          ×
        </button>
      </div>
      <ul>
        {listed.slice(0, most.value).map((chat) => (
          <Entry key={chat.id} chat={chat} here={chat.id === here} onGo={() => (open.value = false)} />
        ))}
      </ul>
      {listed.length > most.value && (
        <button type="button" class="small" onClick={() => (most.value += STEP)}>
          Show older chats
        </button>
      )}
    </nav>
  );
}

function Entry({ chat, here, onGo }: { chat: Chat; here: boolean; onGo: () => void }) {
  const asking = useSignal(false);
  const remover = useRef<HTMLButtonElement>(null);
  useFocusBack(asking.value, remover);
  const name = chat.title || "Untitled";
  const remove = async () => {
    try {
      await deleteChat(chat.id);
      announce(`Deleted: ${name}`);
      document.querySelector<HTMLElement>(".chats-new")?.focus();
      if (here) go("/");
    } catch (error) {
      asking.value = false;
      alarm(refusal(error));
    }
  };
  if (asking.value) return <Confirm name={name} onYes={() => void remove()} onNo={() => (asking.value = false)} />;
  return (
    <li class="chats-entry" data-status={chat.status}>
      <a class="grow" href={`/chats/${chat.id}`} aria-current={here ? "page" : undefined} onClick={onGo}>
        <span class="chats-title">{name}</span>
        <span class="chats-when">{chat.status === "running" ? "running" : ago(chat.updated)}</span>
      </a>
      <button
        type="button"
        class="plain small"
        ref={remover}
        aria-label={`Delete ${name}`}
        title="Delete"
        onClick={() => (asking.value = true)}
      >
        ×
      </button>
    </li>
  );
}

function Confirm({ name, onYes, onNo }: { name: string; onYes: () => void; onNo: () => void }) {
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  const key = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    onNo();
  };
  return (
    <li onKeyDown={key}>
      <div class="chats-confirm" role="group" aria-label={`Delete ${name}?`}>
        <p>Delete “{name}” with all its runs?</p>
        <div class="row">
          <button type="button" class="small" ref={first} onClick={onNo}>Cancel</button>
          <button type="button" class="small danger" onClick={onYes}>Delete</button>
        </div>
      </div>
    </li>
  );
}
