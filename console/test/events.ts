// Events for tests: numbered and timed as a run would do it, one second after the other.
import type { FunctionCall, RunEvent } from "../src/wire/types";

type Plain<E> = E extends RunEvent ? Omit<E, "seq" | "time" | "type" | "done"> : never;
export type PlainEvent = Plain<RunEvent>;

export function numbered(...events: PlainEvent[]): RunEvent[] {
  return events.map((event, index) => ({ ...event, seq: index + 1, time: 100 + index }) as RunEvent);
}

export function called(id: string, name = "look", json = "{}"): FunctionCall {
  return { type: "function_call", id, name, json };
}

export const begun: PlainEvent[] = [
  { event: "run_started", run_id: "run_1", model: "m", messages: [], max_rounds: 3 },
  { event: "round_started", round: 1, phase: "awaiting_model_call" },
];

/** Numbers that look random and are the same in every run of the tests. */
export function chance(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
