// The output of a run: text, calls, and how it ended.
import type { ReadonlySignal } from "@preact/signals";
import { useCallback, useRef } from "preact/hooks";
import { Markdown } from "../parts/markdown";
import type { FileData, InlineData } from "../wire/types";
import { CallCard, type CallCardProps } from "./card";
import { Collapsible } from "./collapsible";
import { Foot } from "./foot";
import type { Followed } from "./follow";
import { memo } from "./memo";
import { useLatest } from "./latest";
import { Stopped } from "./stopped";
import type { CallView, Item, RoundView, RunView } from "./view";
import "../styles/run.css";

export interface RunBodyProps {
  view: RunView;
  /** The connection of the run; omitted in a replay, which has no actions. */
  followed?: Followed;
  runId: string;
  /** Whether the run is active, so that calls can be approved. */
  live: boolean;
  /** The current time in Unix seconds: `useNow(...)`, or the time of a replay. */
  now: ReadonlySignal<number>;
  /** Adds a text to the user's next message. */
  onAddToMessage?: ((text: string) => void) | undefined;
}

export function RunBody({ view, followed, runId, live, now, onAddToMessage }: RunBodyProps) {
  const addToMessage = useStable(onAddToMessage);
  const card = { runId, live, again: followed !== undefined, now, onAddToMessage: addToMessage };
  const connection = followed?.connection.value;
  const active = view.endedAt === undefined && connection !== "refused";
  const { hidden, more } = useLatest(view.rounds, MAX_ROUNDS, "rounds");
  const last = view.rounds.length - 1;
  return (
    <div class="run" data-run={view.id} data-reason={view.reason} aria-busy={active}>
      {more}
      {view.rounds.slice(hidden).map((round, index) => (
        <Round key={hidden + index} view={view} round={round} talking={active && hidden + index === last} card={card} />
      ))}
      {active && <Waiting view={view} />}
      {connection === "reconnecting" && <p class="connection">Connection lost. Reconnecting…</p>}
      {connection === "refused" && <p class="connection">{followed?.problem.value}</p>}
      {view.resumedAt.length > 0 && <p class="hint">The gateway restarted and resumed the run.</p>}
      <Stopped view={view} />
      {view.startedAt > 0 && <Foot view={view} now={now} />}
    </div>
  );
}

type CardProps = Omit<CallCardProps, "call">;

interface RoundProps {
  view: RunView;
  round: RoundView;
  talking: boolean;
  card: CardProps;
}

/** Earlier rounds and items are hidden behind a button. */
const MAX_ROUNDS = 50;
const MAX_ITEMS = 200;

function Round({ view, round, talking, card }: RoundProps) {
  const { hidden, more } = useLatest(round.items, MAX_ITEMS, "items");
  const last = round.items.length - 1;
  const items = () => (
    <>
      {more}
      {round.items.slice(hidden).map((item, index) => (
        <Said key={hidden + index} item={item} call={callOf(view, item)} busy={talking && hidden + index === last} {...card} />
      ))}
    </>
  );
  if (!round.superseded) {
    return (
      <section class="round" data-round={round.number}>
        {items()}
      </section>
    );
  }
  return (
    <Collapsible class="round" label={`Round ${round.number} was interrupted and retried`}>
      {items}
    </Collapsible>
  );
}

function callOf(view: RunView, item: Item): CallView | undefined {
  return item.kind === "call" ? view.calls.get(item.id) : undefined;
}

interface SaidProps extends CardProps {
  item: Item;
  call: CallView | undefined;
  busy: boolean;
}

const Said = memo(function Said({ item, call, busy, ...card }: SaidProps) {
  switch (item.kind) {
    case "text":
      return <Markdown text={item.text} busy={busy} />;
    case "thought":
      return (
        <Collapsible class="thought" label={busy ? "Thinking" : "Thoughts"}>
          {() => <Markdown text={item.text} busy={busy} />}
        </Collapsible>
      );
    case "media":
      return <Media part={item.part} />;
    case "call":
      return call ? <CallCard call={call} {...card} /> : null;
  }
});

/** Displays inline data. The page never loads a file by its address. */
function Media({ part }: { part: InlineData | FileData }) {
  if (part.type === "file_data") return <p class="hint">File: {part.uri}</p>;
  const address = `data:${part.mime_type};base64,${part.data}`;
  if (part.mime_type.startsWith("image/")) return <img class="said-image" src={address} alt="Image from the model" />;
  return (
    <a href={address} download="from-the-model">
      Download {part.mime_type}
    </a>
  );
}

/** An animated line while the model has written nothing in this turn. */
function Waiting({ view }: { view: RunView }) {
  const round = view.rounds.at(-1);
  if (round && (round.items.length > 0 || round.endedAt !== undefined)) return null;
  return <p class="waiting">{round ? "Waiting for the model" : "Starting"}</p>;
}

/** A stable callback, so that cards render again only when they change. */
function useStable(onAddToMessage: RunBodyProps["onAddToMessage"]): RunBodyProps["onAddToMessage"] {
  const latest = useRef(onAddToMessage);
  latest.current = onAddToMessage;
  const stable = useCallback((text: string) => latest.current?.(text), []);
  return onAddToMessage && stable;
}
