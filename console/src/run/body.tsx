// The assistant's side of a run: what was said, what the tools did, and how it ended.
import type { ReadonlySignal } from "@preact/signals";
import type { Followed } from "./follow";
import type { Item, RunView } from "./view";

export interface RunBodyProps {
  view: RunView;
  /** How the run is followed; left out where there is no connection, as in a replay. */
  followed?: Followed;
  runId: string;
  /** Whether one can act on the run: approve, deny, run a tool again. */
  live: boolean;
  /** The time on the run's own axis, in Unix seconds: `useNow(...)`, or a replay's. */
  now: ReadonlySignal<number>;
  /** Puts a text before the model, as the person's next message. */
  onTell?: (text: string) => void;
}

export function RunBody({ view }: RunBodyProps) {
  return (
    <div class="run" data-run={view.id} aria-busy={view.endedAt === undefined}>
      {view.rounds.map((round) => (
        <section class="round">{round.items.map((item) => Said(view, item))}</section>
      ))}
    </div>
  );
}

function Said(view: RunView, item: Item) {
  if (item.kind === "call") return <article class="card" data-call={item.id} data-state={view.calls.get(item.id)?.state} />;
  return item.kind === "media" ? null : <p>{item.text}</p>;
}
