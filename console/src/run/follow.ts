// Runs that are followed: from the gateway as they go, whatever becomes of the connection.
//
// A browser has six connections to a gateway, for all its tabs together. So a tab that nobody looks at
// holds none: it goes on behind its last event when it is seen again.
import { signal, type ReadonlySignal } from "@preact/signals";
import { ApiError, eventsOf } from "../wire/api";
import { RunFold, emptyRun } from "./fold";
import type { RunView } from "./view";

export type Connection = "connecting" | "live" | "reconnecting" | "ended" | "refused";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5_000;
/** The gateway gives a sign of life four times as often: one that says nothing for so long is lost. */
const SILENCE = 60_000;

/** A run and its connection, as signals; `close` gives them back. */
export interface Followed {
  view: ReadonlySignal<RunView>;
  connection: ReadonlySignal<Connection>;
  /** Why it cannot be followed. */
  problem: ReadonlySignal<string>;
  close(): void;
}

/** Follows a run to its end: after a break it goes on behind the last event that it has. */
export function follow(runId: string): Followed {
  const view = signal(emptyRun());
  const connection = signal<Connection>("connecting");
  const problem = signal("");
  const closing = new AbortController();
  const fold = new RunFold();
  let painting = 0;

  // One picture a frame, however many events there are.
  const paint = () => {
    painting ||= requestAnimationFrame(() => {
      painting = 0;
      view.value = fold.view();
    });
  };

  const read = async () => {
    const lost = new Loss();
    try {
      const either = AbortSignal.any([closing.signal, lost.signal]);
      for await (const events of eventsOf(runId, fold.lastSeq, either)) {
        connection.value = "live";
        lost.put(SILENCE);
        for (const event of events) fold.add(event);
        if (events.length) paint();
      }
    } finally {
      lost.close();
    }
  };

  const keepOn = async () => {
    let wait = FIRST_WAIT;
    while (!closing.signal.aborted) {
      if (document.hidden) await happened(document, "visibilitychange", closing.signal);
      const before = fold.lastSeq;
      try {
        await read();
      } catch (error) {
        if (closing.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
          problem.value = error.message;
          connection.value = "refused";
          return;
        }
      }
      if (fold.ended) {
        connection.value = "ended";
        return;
      }
      if (document.hidden) continue;
      connection.value = "reconnecting";
      wait = fold.lastSeq > before ? FIRST_WAIT : Math.min(wait * 2, LONGEST_WAIT);
      await happened(window, "online", AbortSignal.any([closing.signal, AbortSignal.timeout(wait)]));
    }
  };

  void keepOn();
  return { view, connection, problem, close: () => closing.abort() };
}

/** When a connection is given up: the network is gone, nobody looks, or nothing has come for long. */
class Loss {
  private readonly lost = new AbortController();
  private timer = 0;
  readonly signal = this.lost.signal;

  constructor() {
    const until = { signal: this.signal };
    window.addEventListener("offline", () => this.close(), until);
    document.addEventListener("visibilitychange", () => document.hidden && this.close(), until);
  }

  put(milliseconds: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.close(), milliseconds);
  }

  close(): void {
    clearTimeout(this.timer);
    this.lost.abort();
  }
}

/** Waits for an event, at most until the signal. */
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
