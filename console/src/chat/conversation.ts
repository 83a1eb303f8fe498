// One chat: its runs, the draft of the next message, and sending.
import { computed, effect, signal, type Signal } from "@preact/signals";
import { follow, type Followed } from "../run/follow";
import { go, path } from "../router";
import { locked } from "../wire/access";
import { ApiError, api, refusal } from "../wire/api";
import type { ChatCompletionRequest, ChatMessage, Run } from "../wire/types";
import { model } from "./models";
import { storesChats, notifyTabs, refreshChats } from "./chats";
import { NOTHING, joined, messageOf, requestFor, turnsOf, type Draft } from "./request";
import { settings } from "./settings";

export const MAX_TITLE = 80;

/** Unsent drafts by chat, so that they survive a change of pages. */
const drafts = new Map<string, Signal<Draft>>();

export type ChatStatus = "new" | "loading" | "ready" | "missing" | "unreachable";

type Ask = (messages: ChatMessage[]) => ChatCompletionRequest;

export class Conversation {
  readonly status = signal<ChatStatus>("new");
  readonly title = signal("");
  readonly runIds = signal<readonly string[]>([]);
  readonly draft: Signal<Draft>;
  readonly sending = signal(false);
  /** Why the last action failed. */
  readonly problem = signal("");
  readonly stopping = signal("");
  /** Messages to send when the active run has ended, oldest first. */
  readonly queue = signal<readonly Draft[]>([]);
  /** The id of the active run, if there is one. */
  readonly live = computed(() => {
    const last = this.last.value;
    const active = last && last.view.value.endedAt === undefined && last.connection.value !== "refused";
    return active ? this.runIds.value.at(-1) : undefined;
  });

  private readonly last = signal<Followed | undefined>(undefined);
  private readonly followed = new Map<string, Followed>();
  private readonly said = new Map<string, Draft>();
  /** Whether the chat is on screen. If not, a new run opens no connection. */
  private seen = false;
  private listedAs = "";
  private sends = 0;

  constructor(readonly id: string) {
    this.draft = drafts.get(id) ?? signal(NOTHING);
    drafts.set(id, this.draft);
  }

  /** The followed run; following starts with the first call. */
  run(runId: string): Followed {
    const known = this.followed.get(runId) ?? follow(runId);
    this.followed.set(runId, known);
    return known;
  }

  /** The draft that started a run, until the run's own events arrive. */
  sent(runId: string): Draft {
    return this.said.get(runId) ?? NOTHING;
  }

  /** Follows active runs again after the user returns to the page. */
  enter(): void {
    this.seen = true;
    this.problem.value = "";
    this.show(this.runIds.value);
  }

  /** Loads runs that were started elsewhere. */
  async refresh(): Promise<void> {
    const sends = this.sends;
    if (this.status.value === "new") this.status.value = "loading";
    try {
      const chat = await api.chat(this.id);
      if (sends !== this.sends) return;
      this.title.value = chat.title;
      this.show(chat.run_ids ?? []);
      this.status.value = "ready";
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) this.status.value = "missing";
      else if (this.status.value !== "ready") this.status.value = "unreachable";
    }
  }

  /** Refreshes if this chat's entry in the list has changed. */
  async refreshIfChanged(listed: string): Promise<void> {
    const changed = this.listedAs !== "" && this.listedAs !== listed;
    this.listedAs = listed;
    if (changed || this.status.value === "unreachable") await this.refresh();
  }

  /** Sends a message. `replaces` is the run that the new run replaces, with all runs after it. */
  async send(draft: Draft, replaces?: string): Promise<boolean> {
    const chosen = model.value;
    if (!chosen || this.sending.value) return false;
    this.sending.value = true;
    this.problem.value = "";
    try {
      const before = replaces ? this.runIds.value.slice(0, this.runIds.value.indexOf(replaces)) : this.runIds.value;
      const ask = (messages: ChatMessage[]) => requestFor(chosen, settings.value, messages);
      const run = await this.start(ask, messageOf(draft), before, replaces);
      this.sends++;
      this.said.set(run.id, draft);
      // Until the gateway has a title for the chat.
      this.title.value ||= draft.text.slice(0, MAX_TITLE);
      this.show([...before, run.id]);
      this.arrive();
      return true;
    } catch (error) {
      this.problem.value = refusal(error);
      if (error instanceof ApiError && error.code === "chat_busy") void this.refresh();
      return false;
    } finally {
      this.sending.value = false;
    }
  }

  enqueue(draft: Draft): void {
    this.queue.value = [...this.queue.value, draft];
  }

  unqueue(index: number): void {
    this.queue.value = this.queue.value.toSpliced(index, 1);
  }

  /** Sends the first queued message. After a stop or a failure, all of them return to the draft. */
  async sendQueued(): Promise<boolean> {
    const [first] = this.queue.value;
    if (!first || this.live.value || this.sending.value) return false;
    const ended = this.last.value?.view.value.reason;
    if (ended === "stopped" || ended === "error" || !(await this.send(first))) {
      this.draft.value = [...this.queue.value, this.draft.value].reduce(joined);
      this.queue.value = [];
      return false;
    }
    this.queue.value = this.queue.value.filter((each) => each !== first);
    return true;
  }

  async stop(): Promise<void> {
    const runId = this.live.value;
    if (!runId || this.stopping.value === runId) return;
    this.stopping.value = runId;
    try {
      await api.stop(runId);
    } catch (error) {
      this.problem.value = refusal(error);
    } finally {
      this.stopping.value = "";
    }
  }

  /** Closes the connections. Finished runs stay loaded. */
  close(): void {
    this.seen = false;
    for (const [runId, run] of this.followed) {
      run.close();
      if (run.view.value.endedAt === undefined) this.followed.delete(runId);
    }
  }

  private async start(ask: Ask, message: ChatMessage, before: readonly string[], replaces?: string): Promise<Run> {
    if (storesChats.value) {
      try {
        return await api.start({ ...ask([message]), chat_id: this.id, ...(replaces && { replaces }) });
      } catch (error) {
        if (!(error instanceof ApiError && error.code === "no_chats")) throw error;
        storesChats.value = false;
      }
    }
    return api.start(ask([...before.flatMap((runId) => this.historyOf(runId)), message]));
  }

  /** Failed runs are left out, as in a stored chat. */
  private historyOf(runId: string): ChatMessage[] {
    const view = this.run(runId).view.value;
    return view.reason === "error" ? [] : [messageOf(this.sent(runId)), ...turnsOf(view)];
  }

  private show(runIds: readonly string[]): void {
    this.runIds.value = runIds;
    const last = runIds.at(-1);
    this.last.value = last && this.seen ? this.run(last) : undefined;
  }

  /** The first message gives the chat its address. */
  private arrive(): void {
    this.status.value = "ready";
    if (!storesChats.value) return;
    if (unsent.value === this) {
      open = this;
      unsent.value = new Conversation(newId());
    }
    if (path.value === "/") go(`/chats/${this.id}`, "replace");
    notifyTabs(this.id);
    void refreshChats();
  }
}

/** The chat without an address: no message has been sent yet. */
const unsent = signal(new Conversation(newId()));
let open: Conversation | undefined;

/** A browser has few connections per host, so a hidden page holds none. */
effect(() => {
  const atChat = !locked.value && path.value.startsWith("/chats/");
  const atNew = !locked.value && path.value === "/";
  if (!atChat) open?.close();
  if (!atNew) unsent.peek().close();
});

/** The chat at an address. One chat is open at a time. */
export function conversationAt(chatId: string | undefined): Conversation {
  if (!chatId) return unsent.value;
  if (open?.id !== chatId) {
    open?.close();
    open = new Conversation(chatId);
  }
  return open;
}

/** Discards the chat without an address and starts a new one. */
export function startNewChat(): void {
  unsent.value.close();
  unsent.value = new Conversation(newId());
}

/** A random id. `crypto.randomUUID` does not exist on pages that are served over plain HTTP. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
