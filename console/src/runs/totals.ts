// Totals over several runs. Pure.
import type { Run, RunSummary } from "../wire/types";

export type ToolUse = RunSummary["tools"][string];

export interface Totals {
  runs: number;
  running: number;
  failed: number;
  stopped: number;
  inputTokens: number;
  outputTokens: number;
  /** Sorted by failures, then by calls, highest first. */
  tools: [name: string, use: ToolUse][];
}

export function totalsOf(runs: readonly Run[]): Totals {
  const tools = new Map<string, ToolUse>();
  const totals: Totals = { runs: runs.length, running: 0, failed: 0, stopped: 0, inputTokens: 0, outputTokens: 0, tools: [] };
  for (const { status, stop_reason: reason, summary } of runs) {
    if (reason === "stopped") totals.stopped++;
    if (status === "running") totals.running++;
    if (status === "failed") totals.failed++;
    totals.inputTokens += summary?.input_tokens ?? 0;
    totals.outputTokens += summary?.output_tokens ?? 0;
    for (const [name, use] of Object.entries(summary?.tools ?? {})) tools.set(name, added(tools.get(name), use));
  }
  totals.tools = [...tools].sort(([, one], [, other]) => other.failures - one.failures || other.calls - one.calls);
  return totals;
}

function added(one: ToolUse = { calls: 0, failures: 0, seconds: 0 }, other: ToolUse): ToolUse {
  return { calls: one.calls + other.calls, failures: one.failures + other.failures, seconds: one.seconds + other.seconds };
}

/** The value below which this fraction of the numbers lies; 0 if there are none. */
export function quantile(numbers: readonly number[], fraction: number): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)] ?? 0;
}

type Listed = Pick<Run, "id" | "created">;

/** The newest page, followed by the older runs that are already loaded. */
export function merged<One extends Listed>(newest: readonly One[], known: readonly One[]): One[] {
  const oldest = newest.at(-1)?.created ?? -Infinity;
  const there = new Set(newest.map(({ id }) => id));
  return [...newest, ...known.filter(({ id, created }) => created <= oldest && !there.has(id))];
}
