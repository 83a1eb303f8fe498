// The waterfall's rows: what happened when, on one axis. Pure.
import { counted, effectOf, lasted, stateOf, tokensOf } from "./words";
import type { CallView, RoundView, RunView } from "./view";

export type BarKind = "model" | "approval" | "tool";

/** Seconds since the run began; no `to` while it goes on. */
export interface Bar {
  kind: BarKind;
  from: number;
  to?: number;
}

export interface Row {
  key: string;
  label: string;
  /** Of a call. */
  call?: CallView;
  /** Of a request to the model. */
  round?: RoundView;
  bars: Bar[];
  /** A few words beneath the label: tokens, or what went wrong. */
  note: string;
}

/** A row for each request to the model, and one for each call behind the request that asked for it. */
export function rowsOf(view: RunView): Row[] {
  const rows: Row[] = [];
  view.rounds.forEach((round, index) => {
    rows.push(roundRow(view, round, index));
    for (const item of round.items) {
      const call = item.kind === "call" ? view.calls.get(item.id) : undefined;
      if (call) rows.push(callRow(view, call));
    }
  });
  return rows;
}

function roundRow(view: RunView, round: RoundView, index: number): Row {
  const next = view.rounds[index + 1];
  const cut = round.superseded ? next?.startedAt : view.endedAt;
  const bar = between("model", view, round.startedAt, round.endedAt ?? cut);
  const again = round.superseded ? ", asked again" : "";
  return { key: `round ${index}`, label: `Round ${round.number}${again}`, round, bars: [bar], note: notedUsage(round) };
}

function notedUsage({ usage }: RoundView): string {
  const { input_tokens: input, output_tokens: output } = usage;
  return input || output ? `${counted(input ?? 0)} → ${counted(output ?? 0)} tokens` : "";
}

function callRow(view: RunView, call: CallView): Row {
  const bars: Bar[] = [];
  const { approval, startedAt } = call;
  const end = call.endedAt ?? view.endedAt;
  if (approval) bars.push(between("approval", view, approval.asked, approval.answered ?? end));
  if (startedAt !== undefined) bars.push(between("tool", view, startedAt, end));
  return { key: call.id, label: call.name, call, bars, note: isFine(call) ? "" : stateOf(call).toLowerCase() };
}

/** What is fine is seen by its bar; rows that grow and shrink while tools run are hard to read. */
function isFine({ outcome }: CallView): boolean {
  return outcome === undefined || outcome === "ok";
}

function between(kind: BarKind, view: RunView, from: number, to: number | undefined): Bar {
  const bar = { kind, from: Math.max(0, from - view.startedAt) };
  return to === undefined ? bar : { ...bar, to: Math.max(bar.from, to - view.startedAt) };
}

/** The row in a sentence, for whoever points at it or cannot see it. */
export function toldRow(row: Row, span: number): string {
  const told = row.bars.map((bar) => {
    const to = bar.to ?? span;
    const when = `${lasted(to - bar.from)}, from ${lasted(bar.from)} to ${bar.to === undefined ? "now" : lasted(to)}`;
    return `${BAR_WORDS[bar.kind]} ${when}`;
  });
  if (row.round?.toolsOff) told.push("tools off");
  if (row.call) told.push(stateOf(row.call).toLowerCase());
  if (row.call && effectOf(row.call) === "unknown") told.push("may have had an effect");
  if (row.round && row.note) told.push(tokensOf(row.round.usage));
  return `${row.label}: ${told.join("; ")}.`;
}

const BAR_WORDS: Record<BarKind, string> = { model: "the model took", approval: "waited for an approval", tool: "ran" };

/** Seconds at which the axis is marked: round numbers, at most six of them. */
export function ticksOf(span: number): number[] {
  if (!(span > 0)) return [];
  const size = 10 ** Math.floor(Math.log10(span));
  const step = [0.1, 0.2, 0.5, 1, 2, 5].map((factor) => factor * size).find((each) => span / each <= 5) ?? span;
  const ticks = [];
  for (let index = 1; index * step < span; index++) ticks.push(index * step);
  return ticks;
}

export function tickWords(seconds: number): string {
  if (seconds >= 60) return lasted(seconds);
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${Number(seconds.toFixed(1))} s`;
}
