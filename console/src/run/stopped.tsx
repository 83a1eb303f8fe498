// Calls that were interrupted, by whether they may have had an effect.
import { aftermathOf, effectLabel, plural } from "./labels";
import type { CallView, RunView } from "./view";

/** Shown after every stop, and after any other end if a call was interrupted. */
export function Stopped({ view }: { view: RunView }) {
  if (view.endedAt === undefined) return null;
  const { confirmed, unknown, finished } = aftermathOf(view);
  const stopped = view.reason === "stopped";
  if (!stopped && !unknown.length) return null;
  return (
    <section class="stopped" aria-label="Interrupted calls">
      {stopped && !confirmed.length && !unknown.length && <p>Stopped. {noCallsText(finished)}</p>}
      <Calls title="May have had an effect" effect="unknown" calls={unknown} />
      <Calls title="Confirmed cancelled" effect="confirmed" calls={stopped ? confirmed : []} />
      {stopped && finished.length > 0 && (confirmed.length > 0 || unknown.length > 0) && (
        <p class="hint">{plural(finished.length, "call")} had already finished.</p>
      )}
    </section>
  );
}

function noCallsText(finished: CallView[]): string {
  return finished.length ? "No tool was running: every call had finished." : "No tool was called.";
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
            <code>{call.name}</code> {effectLabel(call).replace(/^It /, "")}
          </li>
        ))}
      </ul>
    </div>
  );
}
