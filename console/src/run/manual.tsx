// Running a call's tool again manually, below the card of the call.
import { useRef, useState } from "preact/hooks";
import { takesFocus, useFocusBack } from "../focus";
import { Failure } from "../parts/failure";
import { Value } from "../parts/value";
import type { ToolAnswer } from "../wire/types";
import type { ManualCall } from "./manualcall";
import { argumentsOf, errorIn, resultOf, manualRunMessage } from "./payload";
import { OUTCOME_LABELS, lasted } from "./labels";
import type { CallView } from "./view";

/** The button that runs the tool of a finished call again, with the same arguments. */
export function RunAgain({ call, manual }: { call: CallView; manual: ManualCall }) {
  const [asking, setAsking] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  useFocusBack(asking, opener);
  const given = argumentsOf(call);
  if (!given) return null;
  const run = () => {
    setAsking(false);
    void manual.run(given, call.approval !== undefined);
  };
  if (manual.startedAt !== undefined) {
    return (
      <button type="button" class="plain small" ref={opener} onClick={manual.cancel}>
        Cancel
      </button>
    );
  }
  // A tool that needs approval needs it for a manual run too.
  if (asking) {
    return (
      <span class="row">
        <button type="button" class="small" onClick={run}>
          Approve and run
        </button>
        <button type="button" class="plain small" ref={takesFocus} onClick={() => setAsking(false)}>
          Cancel
        </button>
      </span>
    );
  }
  return (
    <button type="button" class="plain small" ref={opener} aria-label={`Run again: ${call.name}`} onClick={() => (call.approval ? setAsking(true) : run())}>
      Run again
    </button>
  );
}

interface ManualRunProps {
  call: CallView;
  manual: ManualCall;
  onAddToMessage?: ((text: string) => void) | undefined;
}

/** The result of the manual run, with a button that adds it to the next message. */
export function ManualRun({ call, manual, onAddToMessage }: ManualRunProps) {
  const { startedAt, problem, result } = manual;
  if (startedAt !== undefined) return <p class="hint">Running manually…</p>;
  if (problem) return <Failure text={problem} />;
  return result ? <ManualResult call={call} result={result} onAddToMessage={onAddToMessage} /> : null;
}

interface ManualResultProps extends Omit<ManualRunProps, "manual"> {
  result: ToolAnswer;
}

function ManualResult({ call, result, onAddToMessage }: ManualResultProps) {
  const error = errorIn(result.response);
  const value = error ?? resultOf(result);
  return (
    <section class="byhand" aria-label={`${call.name}, manual run`} data-outcome={result.outcome}>
      <p class="row">
        <strong>Manual run</strong>
        <span class="hint">
          {OUTCOME_LABELS[result.outcome]}, {lasted(result.seconds)}
        </span>
        {onAddToMessage && (
          <button type="button" class="small" onClick={() => onAddToMessage(manualRunMessage(call.name, argumentsOf(call) ?? {}, value))}>
            Add to message
          </button>
        )}
      </p>
      {error === undefined ? <Value value={value} /> : <Failure text={error} />}
    </section>
  );
}
