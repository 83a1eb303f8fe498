// The recent calls of a tool, by models and manual.
import { clockOf, moment } from "../chat/time";
import type { Fields } from "../parts/schema";
import { oneLine } from "../parts/format";
import { Value } from "../parts/value";
import { OUTCOME_LABELS, lasted, plural } from "../run/labels";
import type { LastCall, Tool } from "../wire/types";

interface RecentCallsProps {
  calls: Tool["calls"];
  /** Copies the arguments of a call to the form. */
  reuse: (given: Fields) => void;
}

export function RecentCalls({ calls, reuse }: RecentCallsProps) {
  if (!calls.last.length) return <p class="hint">No calls yet.</p>;
  return (
    <>
      <p class="hint">
        {plural(calls.count, "call")}
        {calls.failures > 0 && `, ${calls.failures} failed`}
        {calls.count > calls.last.length && `; showing the last ${calls.last.length}`}.
      </p>
      <ul class="tools-list">
        {calls.last.map((call) => (
          <Call key={`${call.run_id}/${call.call_id}`} call={call} reuse={reuse} />
        ))}
      </ul>
    </>
  );
}

const NEUTRAL: readonly unknown[] = ["denied", "stopped", "not_run"];

/** A call that a person denied or stopped has not failed. */
function outcomeClass(outcome: LastCall["outcome"]): string {
  if (outcome === "ok") return "tools-good";
  return NEUTRAL.includes(outcome) ? "tools-neutral" : "tools-bad";
}

function Call({ call, reuse }: { call: LastCall; reuse: (given: Fields) => void }) {
  const given = call.arguments;
  return (
    <li data-outcome={call.outcome}>
      <details>
        <summary>
          <span class={outcomeClass(call.outcome)}>{OUTCOME_LABELS[call.outcome]}</span>
          <span class="tools-given">{oneLine(given)}</span>
          <span class="hint">
            {lasted(call.seconds)}, <span title={moment(call.time)}>{clockOf(call.time)}</span>
          </span>
        </summary>
        <div class="tools-more">
          <p class="row">
            {call.run_id ? <a href={`/runs/${encodeURIComponent(call.run_id)}`}>View run</a> : <span class="hint">Called manually</span>}
            {typeof given !== "string" && (
              <button type="button" class="small" onClick={() => reuse({ ...given })}>
                Copy to form
              </button>
            )}
          </p>
          <Value value={given} label="Arguments" named />
          {call.response && <Value value={call.response} label="Response" />}
        </div>
      </details>
    </li>
  );
}
