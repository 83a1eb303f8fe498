// How a run is told in words. Pure.
import type { RunEnded, ToolRunEnded, Usage } from "../wire/types";
import type { CallState, CallView, RoundView, RunView } from "./view";

type StopReason = RunEnded["reason"];
type Outcome = ToolRunEnded["outcome"];

export const STATE_WORDS: Record<CallState, string> = {
  "input-streaming": "Being written",
  "input-available": "Waiting",
  "approval-requested": "Approval needed",
  running: "Running",
  "output-available": "Done",
  "output-error": "Failed",
  denied: "Denied",
  cancelled: "Cancelled",
};

export const OUTCOME_WORDS: Record<Outcome, string> = {
  ok: "Done",
  error: "Failed",
  invalid_arguments: "Arguments not valid",
  unknown_tool: "No such tool",
  timeout: "Out of time",
  denied: "Denied",
  stopped: "Cancelled",
  interrupted: "Cut off by a restart",
  not_run: "Not run",
};

export const ENDING_WORDS: Record<StopReason, string> = {
  answer: "The model answered.",
  calls: "Calls are handed back to whoever asked: they are not the gateway's to run.",
  max_rounds: "The rounds of tools were used up, so the model answered without them.",
  repetition: "The same call kept failing, so tools were switched off.",
  length: "The model's output limit cut the answer.",
  content_filter: "The provider withheld the answer.",
  malformed_call: "The provider could not read its model's own call.",
  deadline: "The time for the run was up.",
  stopped: "The run was stopped.",
  error: "The run failed.",
};

/** What is said of a call beside its name. */
export function stateOf(call: CallView): string {
  return call.outcome ? OUTCOME_WORDS[call.outcome] : STATE_WORDS[call.state];
}

/** Where the run stands in its budget of rounds. */
export function budgetOf(round: RoundView, maxRounds: number | null): string {
  if (round.toolsOff) return "tools off: final answer";
  if (maxRounds === null) return `round ${round.number}`;
  if (round.number > maxRounds) return `round ${round.number}: the ${maxRounds} rounds of tools are used up`;
  return `round ${round.number} of ${maxRounds}`;
}

/** What a run has used: every round's tokens, also those of rounds that were asked again. */
export function usageOf(view: RunView): Usage {
  const sum = (field: keyof Usage) => view.rounds.reduce((total, round) => total + (round.usage[field] ?? 0), 0);
  return { input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens") };
}

/** Empty where the provider counted nothing. */
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

/** A time as short as it can be read: "340 ms", "1.3 s", "2 min 5 s". */
export function lasted(seconds: number): string {
  const known = Math.max(0, seconds);
  if (known < 0.9995) return `${Math.round(known * 1000)} ms`;
  if (known < 59.95) return `${known.toFixed(1)} s`;
  const whole = Math.round(known);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** How sure one can be that a call that was cut off has done nothing. */
export type Effect = "confirmed" | "unknown";

/** Nothing for a call that came to its own end. */
export function effectOf(call: CallView): Effect | undefined {
  if (call.effectUnknown) return "unknown";
  return call.state === "cancelled" || call.outcome === "interrupted" ? "confirmed" : undefined;
}

export function effectWords(call: CallView): string {
  if (call.effectUnknown) return "It was cut off while it ran, so it may have had its effect.";
  if (call.startedAt === undefined) return "It never began.";
  return "It was cut off, and is safe to run again.";
}

/** What the end of a run has left behind, call by call. */
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

/** Seconds from the start to the end, or to `now` while it goes. */
export function durationOf(view: RunView, now: number): number {
  return view.startedAt ? Math.max(0, (view.endedAt ?? now) - view.startedAt) : 0;
}
