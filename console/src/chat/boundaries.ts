// What is worth saying aloud of a run: its boundaries, never its text. Pure.
import type { CallState, RunView } from "../run/view";

const SAID: Partial<Record<CallState, string>> = {
  running: "runs",
  "approval-requested": "waits for your approval",
  "output-available": "is done",
  "output-error": "failed",
  denied: "was denied",
  cancelled: "was cancelled",
};

/** Sentences for what has come between two looks at a run; `before` is missing at the first. */
export function boundaries(before: RunView | undefined, after: RunView): string[] {
  if (!before || before.lastSeq === 0) {
    return after.lastSeq && after.endedAt === undefined ? ["The model is answering."] : [];
  }
  const said: string[] = [];
  for (const [id, call] of after.calls) {
    const word = SAID[call.state];
    if (word && before.calls.get(id)?.state !== call.state) said.push(`${call.name} ${word}.`);
  }
  if (after.endedAt !== undefined && before.endedAt === undefined) said.push(ending(after));
  return said;
}

function ending(view: RunView): string {
  if (view.reason === "answer") return "The answer is complete.";
  if (view.reason === "stopped") return "The run is stopped.";
  return view.reason === "error" ? `The run failed. ${view.error ?? ""}`.trim() : "The run has ended.";
}
