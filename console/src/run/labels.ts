// Texts for a run: states, outcomes, endings, durations. Pure.
import type { RunEnded, ToolRunEnded, Usage } from "../wire/types";
import type { CallState, CallView, RoundView, RunView } from "./view";

type StopReason = RunEnded["reason"];
type Outcome = ToolRunEnded["outcome"];

export const STATE_LABELS: Record<CallState, string> = {
  "input-streaming": "Writing arguments",
  "input-available": "Waiting",
  "approval-requested": "Approval needed",
  running: "Running",
  "output-available": "Done",
  "output-error": "Failed",
  denied: "Denied",
  cancelled: "Cancelled",
};

export const OUTCOME_LABELS: Record<Outcome, string> = {
  ok: "Done",
  error: "Failed",
  invalid_arguments: "Invalid arguments",
  unknown_tool: "Unknown tool",
  timeout: "Timed out",
  denied: "Denied",
  stopped: "Cancelled",
  interrupted: "Interrupted by a restart",
  not_run: "Not run",
};

export const ENDING_LABELS: Record<StopReason, string> = {
  answer: "",
  calls: "The client has to run the remaining calls.",
  max_rounds: "The run reached its limit of tool rounds, so the model answered without tools.",
  budget: "The budget of tokens or cost was used up.",
  repetition: "The same call kept failing, so tools were turned off.",
  length: "The answer reached the model's output limit.",
  content_filter: "The provider's content filter blocked the answer.",
  malformed_call: "The model wrote a call that the provider could not read.",
  deadline: "The run reached its time limit.",
  stopped: "The run was stopped.",
  error: "The run failed.",
};

/** The state of a call, shown next to its name. */
export function stateOf(call: CallView): string {
  return call.outcome ? OUTCOME_LABELS[call.outcome] : STATE_LABELS[call.state];
}

/** The budget of rounds, once it matters: in the last round with tools and after it. Otherwise "". */
export function budgetOf(round: RoundView, maxRounds: number | null): string {
  if (round.toolsOff) return "Tools off: final answer";
  if (maxRounds === null || maxRounds < 1 || round.number < maxRounds) return "";
  if (round.number > maxRounds) return `All ${maxRounds} tool rounds used`;
  return maxRounds > 1 ? `Round ${round.number} of ${maxRounds}` : "";
}

/** Whether nothing more happens to a call. */
export function isFinished(call: CallView): boolean {
  return ["output-available", "output-error", "denied", "cancelled"].includes(call.state) && (call.outcome !== undefined || call.state === "cancelled");
}

/** Finished calls on one line: "3 tools, 4.1 s", what went wrong, and their names. */
export function foldedCalls(calls: readonly CallView[]): { label: string; trouble: string; names: string } {
  const starts = calls.map((call) => call.startedAt ?? Infinity);
  const ends = calls.map((call) => call.endedAt ?? -Infinity);
  const seconds = Math.max(...ends) - Math.min(...starts);
  const times = (state: CallState, word: string) => {
    const count = calls.filter((call) => call.state === state).length;
    return count ? [`${count} ${word}`] : [];
  };
  const trouble = [...times("output-error", "failed"), ...times("denied", "denied"), ...times("cancelled", "cancelled")];
  const uses = new Map<string, number>();
  for (const { name } of calls) uses.set(name, (uses.get(name) ?? 0) + 1);
  return {
    label: plural(calls.length, "tool") + (Number.isFinite(seconds) ? `, ${lasted(seconds)}` : ""),
    trouble: trouble.join(", "),
    names: [...uses].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", "),
  };
}

/** The tokens of all rounds, including retried ones. */
export function usageOf(view: RunView): Usage {
  const sum = (field: "input_tokens" | "output_tokens") => view.rounds.reduce((total, round) => total + (round.usage[field] ?? 0), 0);
  return { input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens") };
}

/** Empty if the provider reports no tokens. */
export function tokensOf(usage: Usage): string {
  const { input_tokens: input = 0, output_tokens: output = 0 } = usage;
  return input || output ? `${counted(input)} tokens in, ${counted(output)} out` : "";
}

const NUMBERS = new Intl.NumberFormat("en");

export function counted(number: number): string {
  return NUMBERS.format(number);
}

export function plural(count: number, noun: string): string {
  return `${counted(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A short duration: "340 ms", "1.3 s", "2 min 5 s", "3 min". */
export function lasted(seconds: number): string {
  const known = Math.max(0, seconds);
  if (known < 0.9995) return `${Math.round(known * 1000)} ms`;
  return known < 59.95 ? `${known.toFixed(1)} s` : wholeSeconds(known);
}

/** A duration without a fraction, for a text that counts down: "5 s", "2 min 5 s", "3 min". */
export function wholeSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return joinedUnits([Math.floor(whole / 60), "min"], [whole % 60, "s"]);
  return joinedUnits([Math.floor(whole / 3600), "h"], [Math.floor((whole % 3600) / 60), "min"]);
}

function joinedUnits(large: [number, string], small: [number, string]): string {
  return [large, small].filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** Whether an interrupted call certainly had no effect (`confirmed`) or may have had one. */
export type Effect = "confirmed" | "unknown";

/** Undefined for a call that finished. */
export function effectOf(call: CallView): Effect | undefined {
  if (call.effectUnknown) return "unknown";
  return call.state === "cancelled" || call.outcome === "interrupted" ? "confirmed" : undefined;
}

export function effectLabel(call: CallView): string {
  if (call.effectUnknown) return "It was interrupted while running and may have had an effect.";
  if (call.startedAt === undefined) return "It never started.";
  return "It was interrupted and is safe to run again.";
}

/** The calls of a finished run, by their effect. */
export interface Aftermath {
  confirmed: CallView[];
  unknown: CallView[];
  finished: CallView[];
}

export function aftermathOf(view: RunView): Aftermath {
  const found: Aftermath = { confirmed: [], unknown: [], finished: [] };
  for (const call of view.calls.values()) found[effectOf(call) ?? "finished"].push(call);
  return found;
}

/** Seconds from the start to the end, or to `now` while the run is active. `now` may be older than the last event. */
export function durationOf(view: RunView, now: number): number {
  return view.startedAt ? Math.max(0, (view.endedAt ?? Math.max(now, view.lastAt)) - view.startedAt) : 0;
}
