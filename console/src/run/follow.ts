// Follows the events of a run and reconnects when the connection breaks.
//
// A browser has six connections to a gateway, shared by all its tabs. A hidden tab therefore holds none: it asks for
// new events now and then, so that its title shows a waiting approval, and resumes when it becomes visible.
import { signal, type ReadonlySignal } from "@preact/signals";
import { ApiError, eventsOf, refusal } from "../wire/api";
import { RunFold, emptyRun } from "./fold";
import type { RunView } from "./view";

export type Connection = "connecting" | "live" | "reconnecting" | "ended" | "refused";

const LOST = "The gateway does not have this run: it was deleted, or the gateway restarted without storing it.";
const FIRST_WAIT = 250;
const MAX_WAIT = 5_000;
/** A connection that is silent for this long is lost: the gateway sends a keep-alive four times as often. */
const MAX_SILENCE = 60_000;

/** How often a hidden tab asks for new events, and how long it waits for them. */
const HIDDEN_INTERVAL = 10_000;
const HIDDEN_TIME = 1_000;

/** A run and its connection as signals. `close` stops following. */
export interface Followed {
  view: ReadonlySignal<RunView>;
  connection: ReadonlySignal<Connection>;
  /** Why the run cannot be followed. */
  problem: ReadonlySignal<string>;
  close(): void;
}

/** Follows a run to its end. After a disconnect it resumes after the last event it has. */
export function follow(runId: string): Followed {
  const view = signal(emptyRun());
  const connection = signal<Connection>("connecting");
  const problem = signal("");
  const closing = new AbortController();
  const fold = new RunFold();
  let painting = 0;

  // Renders once per frame, however many events arrive. A hidden tab has no frames.
  const paint = () => {
    if (document.hidden) view.value = fold.view();
    else painting ||= requestAnimationFrame(() => {
      painting = 0;
      view.value = fold.view();
    });
  };

  const read = async (brief: boolean) => {
    const lost = new Loss();
    if (brief) lost.restart(HIDDEN_TIME);
    try {
      const either = AbortSignal.any([closing.signal, lost.signal]);
      for await (const events of eventsOf(runId, fold.lastSeq, either)) {
        connection.value = "live";
        if (!brief) lost.restart(MAX_SILENCE);
        for (const event of events) fold.add(event);
        if (events.length) paint();
        if (brief && events.length) return;
      }
    } finally {
      lost.close();
    }
  };

  const followToEnd = async () => {
    let wait = FIRST_WAIT;
    while (!closing.signal.aborted) {
      if (document.hidden) await happened(document, "visibilitychange", AbortSignal.any([closing.signal, elapsed(HIDDEN_INTERVAL)]));
      if (closing.signal.aborted) return;
      const brief = document.hidden;
      const before = fold.lastSeq;
      try {
        await read(brief);
      } catch (error) {
        if (closing.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
          problem.value = error.status === 404 ? LOST : refusal(error);
          connection.value = "refused";
          return;
        }
      }
      if (fold.ended) {
        connection.value = "ended";
        return;
      }
      if (brief || document.hidden) continue;
      connection.value = "reconnecting";
      wait = fold.lastSeq > before ? FIRST_WAIT : Math.min(wait * 2, MAX_WAIT);
      await happened(window, "online", AbortSignal.any([closing.signal, AbortSignal.timeout(wait)]));
    }
  };

  void followToEnd();
  return { view, connection, problem, close: () => closing.abort() };
}

/** Aborts a connection when the network is offline, the tab is hidden, or nothing has arrived for too long. */
class Loss {
  private readonly lost = new AbortController();
  private timer = 0;
  readonly signal = this.lost.signal;

  constructor() {
    const until = { signal: this.signal };
    window.addEventListener("offline", () => this.close(), until);
    document.addEventListener("visibilitychange", () => document.hidden && this.close(), until);
  }

  restart(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.close(), milliseconds);
  }

  close(): void {
    clearTimeout(this.timer);
    this.lost.abort();
  }
}

/** Aborts after a time. */
function elapsed(milliseconds: number): AbortSignal {
  const timer = new AbortController();
  setTimeout(() => timer.abort(), milliseconds);
  return timer.signal;
}

/** Waits for an event or for the abort signal. */
function happened(target: EventTarget, event: string, until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const heard = new AbortController();
    const done = () => {
      heard.abort();
      resolve();
    };
    if (until.aborted) return resolve();
    target.addEventListener(event, done, { signal: heard.signal });
    until.addEventListener("abort", done, { signal: heard.signal });
  });
}
