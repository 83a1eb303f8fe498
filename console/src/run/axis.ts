// The rows of the waterfall, on one time axis. Pure.
import { shownOf } from "../parts/format";
import { effectOf, lasted, stateOf, tokensOf } from "./labels";
import { argumentsOf } from "./payload";
import type { CallView, RoundView, RunView } from "./view";

export type BarKind = "model" | "approval" | "tool";

/** In seconds since the run started. No `to` while it is active. */
export interface Bar {
  kind: BarKind;
  from: number;
  to?: number;
}

export interface Row {
  key: string;
  label: string;
  /** The values of a call's arguments, which tell it from other calls of the same tool. */
  given: string;
  /** Set for a call. */
  call?: CallView;
  /** Set for a request to the model. */
  round?: RoundView;
  bars: Bar[];
  /** Text below the label: tokens, or the failure. */
  note: string;
}

/** One row for each request to the model, followed by one row for each of its calls. */
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
  const end = round.superseded ? next?.startedAt : view.endedAt;
  const bar = between("model", view, round.startedAt, round.endedAt ?? end);
  const again = round.superseded ? ", retried" : "";
  return { key: `round ${index}`, label: `Round ${round.number}${again}`, given: "", round, bars: [bar], note: tokensOf(round.usage) };
}

function callRow(view: RunView, call: CallView): Row {
  const bars: Bar[] = [];
  const { approval, startedAt } = call;
  const end = call.endedAt ?? view.endedAt;
  if (approval) bars.push(between("approval", view, approval.asked, approval.answered ?? end));
  if (startedAt !== undefined) bars.push(between("tool", view, startedAt, end));
  return { key: call.id, label: call.name, given: givenTo(call), call, bars, note: isFine(call) ? "" : stateOf(call).toLowerCase() };
}

/** Longer arguments are not read. */
const MAX_GIVEN = 500;

function givenTo(call: CallView): string {
  const given = call.input.length < MAX_GIVEN && argumentsOf(call);
  return Object.values(given || {}).map((value) => shownOf(value)).join(", ");
}

/** Successful calls have no note: rows that change their height while tools run are hard to read. */
function isFine({ outcome }: CallView): boolean {
  return outcome === undefined || outcome === "ok";
}

function between(kind: BarKind, view: RunView, from: number, to: number | undefined): Bar {
  const bar = { kind, from: Math.max(0, from - view.startedAt) };
  return to === undefined ? bar : { ...bar, to: Math.max(bar.from, to - view.startedAt) };
}

/** The row as a sentence, for the tooltip and for screen readers. */
export function rowText(row: Row, span: number): string {
  const texts = row.bars.map((bar) => {
    const to = bar.to ?? span;
    const when = `${lasted(to - bar.from)}, from ${lasted(bar.from)} to ${bar.to === undefined ? "now" : lasted(to)}`;
    return `${BAR_LABELS[bar.kind]} ${when}`;
  });
  if (row.round?.toolsOff) texts.push("tools off");
  if (row.call) texts.push(stateOf(row.call).toLowerCase());
  if (row.call && effectOf(row.call) === "unknown") texts.push("may have had an effect");
  if (row.round && row.note) texts.push(tokensOf(row.round.usage));
  return `${row.label}${row.given && ` (${row.given})`}: ${texts.join("; ")}.`;
}

const BAR_LABELS: Record<BarKind, string> = { model: "the model took", approval: "waited for approval", tool: "ran" };

/** The marks of the axis in seconds: at most six round numbers. */
export function ticksOf(span: number): number[] {
  if (!(span > 0)) return [];
  const size = 10 ** Math.floor(Math.log10(span));
  const step = [0.1, 0.2, 0.5, 1, 2, 5].map((factor) => factor * size).find((each) => span / each <= 5) ?? span;
  const ticks = [];
  for (let index = 1; index * step < span; index++) ticks.push(index * step);
  return ticks;
}

export function tickLabel(seconds: number): string {
  if (seconds >= 60) return lasted(seconds);
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${Number(seconds.toFixed(1))} s`;
}
