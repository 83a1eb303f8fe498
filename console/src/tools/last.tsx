// What was last done with a tool, by models and by hand.
import type { Fields } from "../parts/schema";
import { Value } from "../parts/value";
import { OUTCOME_WORDS, lasted, plural } from "../run/words";
import type { LastCall, Tool } from "../wire/types";

interface LastCallsProps {
  calls: Tool["calls"];
  /** Puts the arguments of a call into the form. */
  reuse: (given: Fields) => void;
}

export function LastCalls({ calls, reuse }: LastCallsProps) {
  if (!calls.last.length) return <p class="hint">Nobody has called it yet.</p>;
  return (
    <>
      <p class="hint">
        {plural(calls.count, "call")}
        {calls.failures > 0 && `, ${calls.failures} failed`}
        {calls.count > calls.last.length && `; the last ${calls.last.length} are shown`}.
      </p>
      <ul class="tools-list">
        {calls.last.map((call) => (
          <Call key={`${call.run_id}/${call.call_id}`} call={call} reuse={reuse} />
        ))}
      </ul>
    </>
  );
}

function Call({ call, reuse }: { call: LastCall; reuse: (given: Fields) => void }) {
  const given = call.arguments;
  return (
    <li data-outcome={call.outcome}>
      <details>
        <summary>
          <span class={call.outcome === "ok" ? "tools-good" : "tools-bad"}>{OUTCOME_WORDS[call.outcome]}</span>
          <code class="tools-given">{typeof given === "string" ? given : JSON.stringify(given)}</code>
          <span class="hint">
            {lasted(call.seconds)}, <time dateTime={new Date(call.time * 1000).toISOString()}>{new Date(call.time * 1000).toLocaleString()}</time>
          </span>
        </summary>
        <div class="tools-more">
          <p class="row">
            {call.run_id ? <a href={`/runs/${encodeURIComponent(call.run_id)}`}>The run that called it</a> : <span class="hint">Called by hand</span>}
            {typeof given !== "string" && (
              <button type="button" class="small" onClick={() => reuse({ ...given })}>
                Put into the form
              </button>
            )}
          </p>
          <Value value={given} label="Arguments" />
          {call.response && <Value value={call.response} label="Response" />}
        </div>
      </details>
    </li>
  );
}
