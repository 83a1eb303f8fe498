// What is worth saying aloud of a run: its boundaries, never its text. Pure.
import type { CallState, RunView } from "./view";

const NOW: Partial<Record<CallState, string>> = {
  running: "runs",
  "approval-requested": "waits for your approval",
};
const SAID: Partial<Record<CallState, string>> = {
  ...NOW,
  "output-available": "is done",
  "output-error": "failed",
  denied: "was denied",
  cancelled: "was cancelled",
};

/** Sentences for what has come between two looks at a run. At the first, only what goes on counts. */
export function boundaries(before: RunView | undefined, after: RunView): string[] {
  if (!before?.lastSeq) {
    if (!after.lastSeq || after.endedAt !== undefined) return [];
    return ["The model is answering.", ...changes(NOW, undefined, after)];
  }
  const said = changes(SAID, before, after);
  return after.endedAt !== undefined && before.endedAt === undefined ? [...said, ending(after)] : said;
}

/** What many calls of a tool have in common is said once. */
function changes(words: typeof SAID, before: RunView | undefined, after: RunView): string[] {
  const times = new Map<string, number>();
  for (const call of after.calls.values()) {
    const word = before?.calls.get(call.id)?.state === call.state ? undefined : words[call.state];
    if (word) times.set(`${call.name} ${word}`, (times.get(`${call.name} ${word}`) ?? 0) + 1);
  }
  return [...times].map(([said, count]) => (count > 1 ? `${said}, ${count} times.` : `${said}.`));
}

function ending(view: RunView): string {
  if (view.reason === "answer") return "The answer is complete.";
  if (view.reason === "stopped") return "The run is stopped.";
  return view.reason === "error" ? `The run failed. ${view.error ?? ""}`.trim() : "The run has ended.";
}
