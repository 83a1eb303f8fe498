// A tool run again by a person, beneath the card of the call that it repeats.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { Value } from "../parts/value";
import { refusal } from "../tools/loading";
import { argumentsOf, errorIn, resultOf, toldByHand, type Arguments } from "./payload";
import { callByHand, type HandCall } from "./tools";
import { OUTCOME_WORDS, lasted } from "./words";
import type { CallView } from "./view";

export type Hand = ReturnType<typeof useHand>;

/** Runs a finished call's tool once more, with the same arguments. */
export function Again({ call, hand }: { call: CallView; hand: Hand }) {
  const [asking, setAsking] = useState(false);
  const given = argumentsOf(call);
  if (!given) return null;
  const run = () => {
    setAsking(false);
    void hand.run(given, call.approval !== undefined);
  };
  if (hand.running) {
    return (
      <button type="button" class="plain small" onClick={hand.cancel}>
        Cancel
      </button>
    );
  }
  // Who must say yes before the model may run a tool says it before running it by hand, too.
  if (asking) {
    return (
      <span class="row">
        <button type="button" class="small" onClick={run}>
          Approve and run
        </button>
        <button type="button" class="plain small" onClick={() => setAsking(false)}>
          Leave it
        </button>
      </span>
    );
  }
  return (
    <button type="button" class="plain small" aria-label={`Run again: ${call.name}`} onClick={() => (call.approval ? setAsking(true) : run())}>
      Run again
    </button>
  );
}

interface ByHandProps {
  call: CallView;
  hand: Hand;
  onTell?: ((text: string) => void) | undefined;
}

/** What came of it; the model is told if one likes. */
export function ByHand({ call, hand, onTell }: ByHandProps) {
  const { running, problem, result } = hand;
  if (running) return <p class="hint">Running by hand…</p>;
  if (problem) return <p class="card-error">{problem}</p>;
  return result ? <HandResult call={call} result={result} onTell={onTell} /> : null;
}

interface HandResultProps extends Omit<ByHandProps, "hand"> {
  result: HandCall;
}

function HandResult({ call, result, onTell }: HandResultProps) {
  const error = errorIn(result.response);
  const value = error ?? resultOf(result);
  return (
    <section class="byhand" aria-label={`${call.name}, run by hand`} data-outcome={result.outcome}>
      <p class="row">
        <strong>Run by hand</strong>
        <span class="hint">
          {OUTCOME_WORDS[result.outcome]}, {lasted(result.seconds)}
        </span>
        {onTell && (
          <button type="button" class="small" onClick={() => onTell(toldByHand(call.name, argumentsOf(call) ?? {}, value))}>
            Tell the model
          </button>
        )}
      </p>
      {error === undefined ? <Value value={value} /> : <p class="card-error">{error}</p>}
    </section>
  );
}

/** A tool that a person runs, one at a time. */
export function useHand(call: CallView) {
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
