// The output of a run: text, calls, and how it ended. Finished calls are folded, so that the answer comes first.
import type { ReadonlySignal } from "@preact/signals";
import { useCallback, useRef } from "preact/hooks";
import { isPreparation, preparationOf, servedAs } from "../chat/models";
import { Markdown } from "../parts/markdown";
import type { FileData, InlineData } from "../wire/types";
import { CallCard, type CallCardProps } from "./card";
import { Collapsible } from "./collapsible";
import { Foot } from "./foot";
import { isFinished } from "./labels";
import type { Followed } from "./follow";
import { memo } from "./memo";
import { useLatest } from "./latest";
import { Stopped } from "./stopped";
import { ToolFold } from "./toolfold";
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
  /** The chat of the run, in which calls can be allowed from now on. */
  chatId?: string | undefined;
  /** A page about the run itself: the waterfall is below the answer, and finished calls stay open. */
  timeline?: boolean;
  /** Adds a text to the user's next message. */
  onAddToMessage?: ((text: string) => void) | undefined;
}

export function RunBody({ view, followed, runId, live, now, chatId, timeline = false, onAddToMessage }: RunBodyProps) {
  const addToMessage = useStable(onAddToMessage);
  const card = { runId, live, again: followed !== undefined, now, chatId, model: view.model, onAddToMessage: addToMessage };
  const connection = followed?.connection.value;
  const active = view.endedAt === undefined && connection !== "refused";
  const { hidden, more } = useLatest(view.rounds, MAX_ROUNDS, "rounds");
  const last = view.rounds.length - 1;
  return (
    <div class="run" data-run={view.id} data-reason={view.reason} aria-busy={active}>
      {more}
      {view.rounds.slice(hidden).map((round, index) => (
        <Round key={hidden + index} view={view} round={round} talking={active && hidden + index === last} unfolded={timeline} card={card} />
      ))}
      {active && <Waiting view={view} />}
      {connection === "reconnecting" && <p class="connection">Connection lost. Reconnecting…</p>}
      {connection === "refused" && <p class="connection">{followed?.problem.value}</p>}
      {view.resumedAt.length > 0 && <p class="hint">The gateway restarted and resumed the run.</p>}
      <Stopped view={view} />
      {view.startedAt > 0 && <Foot view={view} now={now} timeline={timeline} canRetry={chatId !== undefined} />}
    </div>
  );
}

type CardProps = Omit<CallCardProps, "call">;

interface RoundProps {
  view: RunView;
  round: RoundView;
  talking: boolean;
  unfolded: boolean;
  card: CardProps;
}

/** Earlier rounds and items are hidden behind a button. */
const MAX_ROUNDS = 50;
const MAX_ITEMS = 200;

function Round({ view, round, talking, unfolded, card }: RoundProps) {
  const { hidden, more } = useLatest(round.items, MAX_ITEMS, "items");
  const last = round.items.length - 1;
  const items = () => (
    <>
      {more}
      {grouped(round.items, hidden).map(({ at, items }) => {
        const said = items.map((item, index) => (
          <Said key={at + index} item={item} call={callOf(view, item)} busy={talking && at + index === last} {...card} />
        ));
        const calls = items.flatMap((item) => callOf(view, item) ?? []);
        return calls.length ? <ToolFold key={at} calls={calls} finished={calls.every(isFinished)} unfolded={unfolded}>{said}</ToolFold> : said;
      })}
    </>
  );
  if (!round.superseded && !round.rejected) {
    return (
      <section class="round" data-round={round.number}>
        {items()}
      </section>
    );
  }
  return (
    <Collapsible class="round" label={`Round ${round.number} ${round.rejected ? "had an invalid answer" : "was interrupted"} and was retried`}>
      {items}
    </Collapsible>
  );
}

interface Group {
  /** The index of its first item. */
  at: number;
  items: Item[];
}

/** The items from an index on. Consecutive calls are one group; every other item is its own. */
function grouped(items: readonly Item[], from: number): Group[] {
  const groups: Group[] = [];
  items.slice(from).forEach((item, index) => {
    const last = groups.at(-1);
    if (last && item.kind === "call" && last.items[0]?.kind === "call") last.items.push(item);
    else groups.push({ at: from + index, items: [item] });
  });
  return groups;
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

/** An animated line while the model has written nothing in this turn: what the model or the run does, if that is known. */
function Waiting({ view }: { view: RunView }) {
  const round = view.rounds.at(-1);
  if (round && (round.items.length > 0 || round.endedAt !== undefined)) return null;
  const served = servedAs(view.model);
  const status = round?.toolsOff ? "" : view.status.replace(/(\.|…)+$/, "");
  // A run reports once that its model is not ready. The list of models is current.
  const outdated = served?.windlass.status === "ready" && isPreparation(status);
  const doing = preparationOf(served) || (outdated ? "" : status);
  return <p class="waiting">{doing || (round ? "Waiting for the model" : "Starting")}</p>;
}

/** A stable callback, so that cards render again only when they change. */
function useStable(onAddToMessage: RunBodyProps["onAddToMessage"]): RunBodyProps["onAddToMessage"] {
  const latest = useRef(onAddToMessage);
  latest.current = onAddToMessage;
  const stable = useCallback((text: string) => latest.current?.(text), []);
  return onAddToMessage && stable;
}
