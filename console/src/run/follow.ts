// Runs that are followed: from the gateway as they go, whatever becomes of the connection.
import { signal, type ReadonlySignal } from "@preact/signals";
import { ApiError, eventsOf } from "../wire/api";
import { RunFold, emptyRun } from "./fold";
import type { RunView } from "./view";

export type Connection = "connecting" | "live" | "reconnecting" | "ended" | "refused";

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5_000;

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

  // One picture a frame, however many events there are; a hidden page has no frames.
  const paint = () => {
    if (painting) return;
    const shown = () => {
      painting = 0;
      view.value = fold.view();
    };
    painting = document.hidden ? window.setTimeout(shown, 100) : requestAnimationFrame(shown);
  };

  const read = async () => {
    const lost = new AbortController();
    const giveUp = () => lost.abort();
    window.addEventListener("offline", giveUp);
    try {
      const either = AbortSignal.any([closing.signal, lost.signal]);
      for await (const events of eventsOf(runId, fold.lastSeq, either)) {
        connection.value = "live";
        for (const event of events) fold.add(event);
        paint();
      }
    } finally {
      window.removeEventListener("offline", giveUp);
    }
  };

  const keepOn = async () => {
    let wait = FIRST_WAIT;
    while (!closing.signal.aborted) {
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
      connection.value = "reconnecting";
      wait = fold.lastSeq > before ? FIRST_WAIT : Math.min(wait * 2, LONGEST_WAIT);
      await restOrOnline(wait, closing.signal);
    }
  };

  void keepOn();
  return { view, connection, problem, close: () => closing.abort() };
}

/** Waits so long, or until the network is back. */
function restOrOnline(milliseconds: number, closing: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      closing.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    window.addEventListener("online", done);
    closing.addEventListener("abort", done);
  });
}
