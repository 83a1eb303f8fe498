// One conversation: its runs, what is being written, and what is sent.
import { computed, effect, signal, type Signal } from "@preact/signals";
import { follow, type Followed } from "../run/follow";
import { go, path } from "../router";
import { locked } from "../wire/access";
import { ApiError, api, refusal } from "../wire/api";
import type { ChatCompletionRequest, ChatMessage, Run } from "../wire/types";
import { model } from "./catalog";
import { kept, refreshChats, tell } from "./chats";
import { NOTHING, messageOf, requestFor, turnsOf, type Draft } from "./request";
import { settings } from "./settings";

/** What was written and not sent, by chat: it is there again when one comes back. */
const drafts = new Map<string, Signal<Draft>>();

export type Standing = "new" | "loading" | "ready" | "missing" | "away";

type Ask = (messages: ChatMessage[]) => ChatCompletionRequest;

export class Conversation {
  readonly standing = signal<Standing>("new");
  readonly title = signal("");
  readonly runIds = signal<readonly string[]>([]);
  readonly draft: Signal<Draft>;
  readonly sending = signal(false);
  /** Why the last thing that was tried did not work. */
  readonly problem = signal("");
  readonly stopping = signal("");
  /** The run that goes, if one does. */
  readonly live = computed(() => {
    const last = this.last.value;
    const goes = last && last.view.value.endedAt === undefined && last.connection.value !== "refused";
    return goes ? this.runIds.value.at(-1) : undefined;
  });

  private readonly last = signal<Followed | undefined>(undefined);
  private readonly followed = new Map<string, Followed>();
  private readonly said = new Map<string, Draft>();
  /** Whether somebody looks: an answer that comes later opens no connection. */
  private seen = false;
  private listedAs = "";
  private sends = 0;

  constructor(readonly id: string) {
    this.draft = drafts.get(id) ?? signal(NOTHING);
    drafts.set(id, this.draft);
  }

  /** A run as it is followed, from the first time that somebody wants to see it. */
  run(runId: string): Followed {
    const known = this.followed.get(runId) ?? follow(runId);
    this.followed.set(runId, known);
    return known;
  }

  /** What was sent for a run, before the run itself says so. */
  sent(runId: string): Draft {
    return this.said.get(runId) ?? NOTHING;
  }

  /** Follows again what goes on, after the page was left. */
  enter(): void {
    this.seen = true;
    this.problem.value = "";
    this.show(this.runIds.value);
  }

  /** Looks at the gateway for runs that were begun elsewhere. */
  async refresh(): Promise<void> {
    const sends = this.sends;
    if (this.standing.value === "new") this.standing.value = "loading";
    try {
      const chat = await api.chat(this.id);
      if (sends !== this.sends) return;
      this.title.value = chat.title;
      this.show(chat.run_ids ?? []);
      this.standing.value = "ready";
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) this.standing.value = "missing";
      else if (this.standing.value !== "ready") this.standing.value = "away";
    }
  }

  /** Refreshes if what the list says of this chat is not what it said before. */
  async refreshIfChanged(listed: string): Promise<void> {
    const changed = this.listedAs !== "" && this.listedAs !== listed;
    this.listedAs = listed;
    if (changed || this.standing.value === "away") await this.refresh();
  }

  /** Asks the model; `replaces` names the run from which on the conversation is to be another. */
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
      this.show([...before, run.id]);
      this.arrive();
      return true;
    } catch (error) {
      this.problem.value = refusal(error);
      if (error instanceof ApiError && error.code === "chat_is_busy") void this.refresh();
      return false;
    } finally {
      this.sending.value = false;
    }
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

  /** Gives the connections back; what has ended stays as it is known. */
  rest(): void {
    this.seen = false;
    for (const [runId, run] of this.followed) {
      run.close();
      if (run.view.value.endedAt === undefined) this.followed.delete(runId);
    }
  }

  private async start(ask: Ask, message: ChatMessage, before: readonly string[], replaces?: string): Promise<Run> {
    if (kept.value) {
      try {
        return await api.start({ ...ask([message]), chat_id: this.id, ...(replaces && { replaces }) });
      } catch (error) {
        if (!(error instanceof ApiError && error.code === "no_chats")) throw error;
        kept.value = false;
      }
    }
    return api.start(ask([...before.flatMap((runId) => this.historyOf(runId)), message]));
  }

  /** As in a chat that is kept, what has failed is not told to the model. */
  private historyOf(runId: string): ChatMessage[] {
    const view = this.run(runId).view.value;
    return view.reason === "error" ? [] : [messageOf(this.sent(runId)), ...turnsOf(view)];
  }

  private show(runIds: readonly string[]): void {
    this.runIds.value = runIds;
    const last = runIds.at(-1);
    this.last.value = last && this.seen ? this.run(last) : undefined;
  }

  /** A first message gives the chat its address. */
  private arrive(): void {
    this.standing.value = "ready";
    if (!kept.value) return;
    if (unsent.value === this) {
      open = this;
      unsent.value = new Conversation(newId());
    }
    if (path.value === "/") go(`/chats/${this.id}`, "replace");
    tell(this.id);
    void refreshChats();
  }
}

/** The conversation that has no address yet. */
const unsent = signal(new Conversation(newId()));
let open: Conversation | undefined;

/** Connections are few in a browser: none is held for a page that is not seen. */
effect(() => {
  const atChat = !locked.value && path.value.startsWith("/chats/");
  const atNew = !locked.value && path.value === "/";
  if (!atChat) open?.rest();
  if (!atNew) unsent.peek().rest();
});

/** The conversation at an address; one is open at a time. */
export function conversationAt(chatId: string | undefined): Conversation {
  if (!chatId) return unsent.value;
  if (open?.id !== chatId) {
    open?.rest();
    open = new Conversation(chatId);
  }
  return open;
}

/** Leaves what was said without an address, for a conversation that begins anew. */
export function beginAnew(): void {
  unsent.value.rest();
  unsent.value = new Conversation(newId());
}

/** Random, and made where `crypto.randomUUID` is not: on a page that came by plain HTTP. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
