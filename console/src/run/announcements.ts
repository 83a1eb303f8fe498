// Announcements for a run: its starts and ends, never its text. Pure.
import type { CallState, RunView } from "./view";

const NOW: Partial<Record<CallState, string>> = {
  running: "is running",
  "approval-requested": "needs your approval",
};
const SAID: Partial<Record<CallState, string>> = {
  ...NOW,
  "output-available": "is done",
  "output-error": "failed",
  denied: "was denied",
  cancelled: "was cancelled",
};

/** Sentences for the changes between two views of a run. For the first view, only what is active. */
export function announcements(before: RunView | undefined, after: RunView): string[] {
  if (!before?.lastSeq) {
    if (!after.lastSeq || after.endedAt !== undefined) return [];
    return ["The model is answering.", ...changes(NOW, undefined, after)];
  }
  const said = changes(SAID, before, after);
  return after.endedAt !== undefined && before.endedAt === undefined ? [...said, ending(after)] : said;
}

/** The same change of several calls of a tool is one sentence. */
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
  if (view.reason === "stopped") return "The run was stopped.";
  return view.reason === "error" ? `The run failed. ${view.error ?? ""}`.trim() : "The run has ended.";
}
