// What a run that was cut off has left behind: what is certain, and what is not.
import { aftermathOf, effectWords, plural } from "./words";
import type { CallView, RunView } from "./view";

/** After a stop always; after any other end only where something was cut off. */
export function Stopped({ view }: { view: RunView }) {
  if (view.endedAt === undefined) return null;
  const { confirmed, unknown, finished } = aftermathOf(view);
  const stopped = view.reason === "stopped";
  if (!stopped && !unknown.length) return null;
  return (
    <section class="stopped" aria-label="What was cut off">
      {stopped && !confirmed.length && !unknown.length && <p>Stopped. {nothingCut(finished)}</p>}
      <Calls title="May have had an effect" effect="unknown" calls={unknown} />
      <Calls title="Confirmed cancelled" effect="confirmed" calls={stopped ? confirmed : []} />
      {stopped && finished.length > 0 && (confirmed.length > 0 || unknown.length > 0) && (
        <p class="hint">{plural(finished.length, "call")} had ended before.</p>
      )}
    </section>
  );
}

function nothingCut(finished: CallView[]): string {
  return finished.length ? "No tool was running: every call had ended." : "No tool had been called.";
}

function Calls({ title, effect, calls }: { title: string; effect: string; calls: CallView[] }) {
  if (!calls.length) return null;
  return (
    <div class="stopped-calls" data-effect={effect}>
      <p>
        <strong>{title}</strong>
      </p>
      <ul>
        {calls.map((call) => (
          <li key={call.id} data-call={call.id}>
            <code>{call.name}</code> {effectWords(call)}
          </li>
        ))}
      </ul>
    </div>
  );
}
