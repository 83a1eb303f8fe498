// A tool run again by a person, beneath the card of the call that it repeats.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { Value } from "../parts/value";
import { ApiError } from "../wire/api";
import { argumentsOf, errorIn, resultOf, toldByHand, type Arguments } from "./payload";
import { callByHand, type HandCall } from "./tools";
import { OUTCOME_WORDS, lasted } from "./words";
import type { CallView } from "./view";

interface RunAgainProps {
  call: CallView;
  onTell?: ((text: string) => void) | undefined;
}

/** Runs a finished call's tool once more, with the same arguments; the model is told if one likes. */
export function RunAgain({ call, onTell }: RunAgainProps) {
  const given = argumentsOf(call);
  const hand = useHand(call);
  if (!given) return null;
  const needsYes = call.approval !== undefined;
  return (
    <div class="byhand">
      {hand.running ? (
        <button type="button" class="small" onClick={hand.cancel}>
          Cancel
        </button>
      ) : (
        <Again needsYes={needsYes} run={() => void hand.run(given, needsYes)} />
      )}
      {hand.running && <span class="hint">Running by hand…</span>}
      {hand.problem && <p class="card-error">{hand.problem}</p>}
      {hand.result && <HandResult call={call} given={given} result={hand.result} onTell={onTell} />}
    </div>
  );
}

/** Who must say yes before the model may run a tool says it before running it by hand, too. */
function Again({ needsYes, run }: { needsYes: boolean; run: () => void }) {
  const [asking, setAsking] = useState(false);
  if (!asking) {
    return (
      <button type="button" class="plain small" onClick={() => (needsYes ? setAsking(true) : run())}>
        Run again
      </button>
    );
  }
  return (
    <span class="row">
      <span class="hint">It needs an approval. Run it with these arguments?</span>
      <button type="button" class="small" onClick={run}>
        Yes, run it
      </button>
      <button type="button" class="small" onClick={() => setAsking(false)}>
        No
      </button>
    </span>
  );
}

interface HandResultProps extends RunAgainProps {
  given: Arguments;
  result: HandCall;
}

function HandResult({ call, given, result, onTell }: HandResultProps) {
  const error = errorIn(result.response);
  const value = error ?? resultOf(result);
  return (
    <section class="byhand-result" aria-label={`${call.name}, run by hand`} data-outcome={result.outcome}>
      <p class="row">
        <strong>Run by hand</strong>
        <span class="hint">
          {OUTCOME_WORDS[result.outcome]}, {lasted(result.seconds)}
        </span>
        {onTell && (
          <button type="button" class="small" onClick={() => onTell(toldByHand(call.name, given, value))}>
            Tell the model
          </button>
        )}
      </p>
      {error === undefined ? <Value value={value} /> : <p class="card-error">{error}</p>}
    </section>
  );
}

function useHand(call: CallView) {
  const [running, setRunning] = useState(false);
  const [result, setResult] = useState<HandCall>();
  const [problem, setProblem] = useState("");
  const cancelling = useRef<AbortController>(undefined);
  useEffect(() => () => cancelling.current?.abort(), []);
  const run = async (given: Arguments, approved: boolean) => {
    const cancel = new AbortController();
    cancelling.current = cancel;
    setRunning(true);
    setProblem("");
    setResult(undefined);
    try {
      const result = await callByHand(call.name, given, approved, cancel.signal);
      setResult(result);
      announce(`${call.name}, run by hand: ${OUTCOME_WORDS[result.outcome].toLowerCase()}.`);
    } catch (error) {
      setProblem(cancel.signal.aborted ? "Cancelled. The tool may have had its effect." : refusal(error));
    } finally {
      setRunning(false);
    }
  };
  return { running, result, problem, run, cancel: () => cancelling.current?.abort() };
}

function refusal(error: unknown): string {
  return error instanceof ApiError ? error.message : "The gateway cannot be reached.";
}
