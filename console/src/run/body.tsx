// The assistant's side of a run: what was said, what the tools did, and how it ended.
import type { ReadonlySignal } from "@preact/signals";
import { useCallback, useRef } from "preact/hooks";
import { Markdown } from "../parts/markdown";
import type { FileData, InlineData } from "../wire/types";
import { CallCard, type CallCardProps } from "./card";
import { Folded } from "./folded";
import { Foot } from "./foot";
import type { Followed } from "./follow";
import { kept } from "./kept";
import { useLatest } from "./latest";
import { Stopped } from "./stopped";
import type { CallView, Item, RoundView, RunView } from "./view";
import "../styles/run.css";

export interface RunBodyProps {
  view: RunView;
  /** How the run is followed; left out of a replay, in which there is nothing to act on. */
  followed?: Followed;
  runId: string;
  /** Whether the run goes on, so that a call that waits can be decided about. */
  live: boolean;
  /** The time on the run's own axis, in Unix seconds: `useNow(...)`, or a replay's. */
  now: ReadonlySignal<number>;
  /** Puts a text before the model, as the person's next message. */
  onTell?: ((text: string) => void) | undefined;
}

export function RunBody({ view, followed, runId, live, now, onTell }: RunBodyProps) {
  const tell = useSteady(onTell);
  const card = { runId, live, again: followed !== undefined, now, onTell: tell };
  const connection = followed?.connection.value;
  const goes = view.endedAt === undefined && connection !== "refused";
  const { hidden, more } = useLatest(view.rounds, ROUNDS, "rounds");
  const last = view.rounds.length - 1;
  return (
    <div class="run" data-run={view.id} data-reason={view.reason} aria-busy={goes}>
      {more}
      {view.rounds.slice(hidden).map((round, index) => (
        <Round key={hidden + index} view={view} round={round} talking={goes && hidden + index === last} card={card} />
      ))}
      {goes && <Waiting view={view} />}
      {connection === "reconnecting" && <p class="connection">The connection is lost. Trying again…</p>}
      {connection === "refused" && <p class="connection">{followed?.problem.value}</p>}
      {view.resumedAt.length > 0 && <p class="hint">The gateway was restarted, and the run went on.</p>}
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

/** More than these are shown when somebody asks for them. */
const ROUNDS = 50;
const ITEMS = 200;

function Round({ view, round, talking, card }: RoundProps) {
  const { hidden, more } = useLatest(round.items, ITEMS, "things");
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
    <Folded class="round" label={`Round ${round.number} was cut off, and the model was asked again`}>
      {items}
    </Folded>
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

const Said = kept(function Said({ item, call, busy, ...card }: SaidProps) {
  switch (item.kind) {
    case "text":
      return <Markdown text={item.text} busy={busy} />;
    case "thought":
      return (
        <Folded class="thought" label={busy ? "Thinking" : "Thoughts"}>
          {() => <Markdown text={item.text} busy={busy} />}
        </Folded>
      );
    case "media":
      return <Media part={item.part} />;
    case "call":
      return call ? <CallCard call={call} {...card} /> : null;
  }
});

/** Bytes are shown; an address is never fetched by the page. */
function Media({ part }: { part: InlineData | FileData }) {
  if (part.type === "file_data") return <p class="hint">A file at {part.uri}</p>;
  const address = `data:${part.mime_type};base64,${part.data}`;
  if (part.mime_type.startsWith("image/")) return <img class="said-image" src={address} alt="An image by the model" />;
  return (
    <a href={address} download="from-the-model">
      Save the {part.mime_type}
    </a>
  );
}

/** Something that moves as long as the model has said nothing in its turn. */
function Waiting({ view }: { view: RunView }) {
  const round = view.rounds.at(-1);
  if (round && (round.items.length > 0 || round.endedAt !== undefined)) return null;
  return <p class="waiting">{round ? "Waiting for the model" : "Starting"}</p>;
}

/** The same function as long as there is one: cards are drawn again only when they change. */
function useSteady(onTell: RunBodyProps["onTell"]): RunBodyProps["onTell"] {
  const latest = useRef(onTell);
  latest.current = onTell;
  const steady = useCallback((text: string) => latest.current?.(text), []);
  return onTell && steady;
}
