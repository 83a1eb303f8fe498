// The list of stored chats, with search: a column, or a drawer on narrow screens.
import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChild } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { alarm, announce } from "../announce";
import { selectAll, takesFocus, useFocusBack } from "../focus";
import { go } from "../router";
import { plural } from "../run/labels";
import { hasKeyboard } from "../shortcuts";
import { api, refusal } from "../wire/api";
import type { Chat } from "../wire/types";
import { chats, deleteChat, renameChat, storesChats } from "./chats";
import { MAX_TITLE, startNewChat } from "./conversation";
import { focusEditor } from "./focus";
import { dateGroup } from "./time";

const STEP = 100;
const TYPING_DELAY = 200;

/** The text to search for. It stays while the user visits other pages. */
const search = signal("");
/** The chats that match the search; null while it runs for the first time. */
const found = signal<readonly Chat[] | null>(null);

interface SidebarProps {
  here: string | undefined;
  open: Signal<boolean>;
}

export function Sidebar({ here, open }: SidebarProps) {
  const place = useRef<HTMLElement>(null);
  const most = useSignal(STEP);
  useSearch();
  useEffect(() => {
    if (open.value) place.current?.querySelector<HTMLElement>("a, button")?.focus();
  }, [open.value]);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented || !open.value) return;
    event.preventDefault();
    open.value = false;
  };
  const begin = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    startNewChat();
    open.value = false;
  };
  const searching = search.value.trim() !== "";
  const listed = (searching ? found.value : chats.value) ?? [];
  const close = () => (open.value = false);
  const older = () => {
    const first = most.value;
    most.value += STEP;
    requestAnimationFrame(() => place.current?.querySelectorAll<HTMLElement>(".chats-line a")[first]?.focus());
  };
  return (
    <nav class="chats" id="chats" ref={place} aria-label="Chats" data-open={open.value} onKeyDown={leave}>
      {open.value && <h1 class="unseen">Chats</h1>}
      <div class="chats-top">
        <div class="row">
          <a class="chats-new grow" href="/" onClick={begin}>
            New chat
          </a>
          <button type="button" class="plain chats-close" aria-label="Close chat list" onClick={close}>
            ×
          </button>
        </div>
        {storesChats.value && <SearchField inDrawer={open.value} />}
      </div>
      {searching && found.value?.length === 0 && <p class="hint">No matching chats.</p>}
      {groupsOf(listed.slice(0, most.value), searching).map(([name, group]) => (
        <section key={name} aria-label={name}>
          <h2 class="chats-group">{name}</h2>
          <ul>
            {group.map((chat) => (
              <Entry key={chat.id} chat={chat} here={chat.id === here} onGo={close} />
            ))}
          </ul>
        </section>
      ))}
      {listed.length > most.value && (
        <button type="button" class="small" onClick={older}>
          Show older chats
        </button>
      )}
    </nav>
  );
}

/** The chats under the headings of their dates, in order. Search results have one heading. */
function groupsOf(listed: readonly Chat[], searching: boolean): [string, Chat[]][] {
  const groups = new Map<string, Chat[]>();
  for (const chat of listed) {
    const name = searching ? plural(listed.length, "match").replace("matchs", "matches") : dateGroup(chat.updated);
    groups.set(name, [...(groups.get(name) ?? []), chat]);
  }
  return [...groups];
}

function SearchField({ inDrawer }: { inDrawer: boolean }) {
  const key = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || (inDrawer && !search.value)) return;
    // Otherwise Escape would stop the run.
    event.preventDefault();
    if (search.value) search.value = "";
    else focusEditor();
  };
  return (
    <input
      type="search"
      class="chats-search"
      aria-label="Search chats"
      aria-keyshortcuts="Control+K"
      placeholder={hasKeyboard ? "Search chats (Ctrl+K)" : "Search chats"}
      value={search.value}
      onInput={(event) => (search.value = event.currentTarget.value)}
      onKeyDown={key}
    />
  );
}

/** Searches titles and content, a moment after the last key, and again when the chats change. */
function useSearch(): void {
  const wanted = search.value.trim();
  useEffect(() => {
    if (!wanted) {
      found.value = null;
      return;
    }
    let current = true;
    const timer = setTimeout(() => {
      api.chats(wanted).then(
        (matches) => {
          if (!current) return;
          if (found.value?.length !== matches.length) announce(matches.length === 1 ? "1 chat found" : `${matches.length} chats found`);
          found.value = matches;
        },
        (error: unknown) => current && alarm(refusal(error)),
      );
    }, TYPING_DELAY);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [wanted, chats.value?.length]);
}

type Action = "" | "menu" | "rename" | "delete";

function Entry({ chat, here, onGo }: { chat: Chat; here: boolean; onGo: () => void }) {
  const action = useSignal<Action>("");
  const opener = useRef<HTMLButtonElement>(null);
  useFocusBack(action.value !== "", opener);
  const name = chat.title || "Untitled";
  const close = () => (action.value = "");
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      close();
      alarm(refusal(error));
    }
  };
  const remove = async () => {
    await deleteChat(chat.id);
    announce(`Deleted: ${name}`);
    document.querySelector<HTMLElement>(".chats-new")?.focus();
    if (here) go("/");
  };
  const rename = async (title: string) => {
    const renamed = await renameChat(chat.id, title);
    found.value = found.value?.map((each) => (each.id === chat.id ? { ...each, title: renamed } : each)) ?? null;
    announce("Chat renamed");
    close();
  };
  if (action.value === "rename") return <Rename name={name} onName={(title) => void attempt(() => rename(title))} onCancel={close} />;
  if (action.value === "delete") return <Confirm name={name} onYes={() => void attempt(remove)} onNo={close} />;
  const open = action.value === "menu";
  return (
    <li class="chats-entry" data-status={chat.status} onKeyDown={open ? escaping(close) : undefined}>
      <div class="chats-line">
        <a class="grow" href={`/chats/${chat.id}`} title={name} aria-current={here ? "page" : undefined} onClick={onGo}>
          <span class="chats-title">{name}</span>
          {chat.match && <span class="chats-match">{marked(chat.match, search.value.trim())}</span>}
        </a>
        {chat.status === "running" && <span class="chats-running" role="img" aria-label="running" title="A run is active" />}
        <button
          type="button"
          class="plain small chats-more"
          ref={opener}
          aria-label={`Actions for ${name}`}
          aria-expanded={open}
          onClick={() => (action.value = open ? "" : "menu")}
        >
          ⋯
        </button>
      </div>
      {open && (
        <div class="row chats-actions">
          <button type="button" class="small" ref={takesFocus} aria-label={`Rename ${name}`} onClick={() => (action.value = "rename")}>
            Rename
          </button>
          <button type="button" class="small danger" aria-label={`Delete ${name}`} onClick={() => (action.value = "delete")}>
            Delete
          </button>
        </div>
      )}
    </li>
  );
}

/** The text, with the first match in it emphasized. */
function marked(text: string, wanted: string): ComponentChild {
  const at = text.toLowerCase().indexOf(wanted.toLowerCase());
  if (at < 0) return text;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + wanted.length)}</mark>
      {text.slice(at + wanted.length)}
    </>
  );
}

function escaping(close: () => void): (event: KeyboardEvent) => void {
  return (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    close();
  };
}

function Rename({ name, onName, onCancel }: { name: string; onName: (title: string) => void; onCancel: () => void }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onName(String(new FormData(event.currentTarget as HTMLFormElement).get("title") ?? ""));
  };
  return (
    <li onKeyDown={escaping(onCancel)}>
      <form class="chats-confirm" aria-label={`Rename ${name}`} onSubmit={submit}>
        <input name="title" aria-label="New title" defaultValue={name} maxLength={MAX_TITLE} autocomplete="off" ref={selectAll} />
        <div class="row">
          <button type="submit" class="small main">Save</button>
          <button type="button" class="small" onClick={onCancel}>Cancel</button>
        </div>
      </form>
    </li>
  );
}

function Confirm({ name, onYes, onNo }: { name: string; onYes: () => void; onNo: () => void }) {
  return (
    <li onKeyDown={escaping(onNo)}>
      <div class="chats-confirm" role="group" aria-label={`Delete ${name}?`}>
        <p>Delete “{name}” with all its runs?</p>
        <div class="row">
          <button type="button" class="small" ref={takesFocus} onClick={onNo}>Cancel</button>
          <button type="button" class="small danger" onClick={onYes}>Delete</button>
        </div>
      </div>
    </li>
  );
}
