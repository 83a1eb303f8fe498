// A tool run again by a person, beneath the card of the call that it repeats.
import { useRef, useState } from "preact/hooks";
import { takesFocus, useFocusBack } from "../focus";
import { Failure } from "../parts/failure";
import { Value } from "../parts/value";
import type { ToolAnswer } from "../wire/types";
import type { Hand } from "./hand";
import { argumentsOf, errorIn, resultOf, toldByHand } from "./payload";
import { OUTCOME_WORDS, lasted } from "./words";
import type { CallView } from "./view";

/** Runs a finished call's tool once more, with the same arguments. */
export function Again({ call, hand }: { call: CallView; hand: Hand }) {
  const [asking, setAsking] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  useFocusBack(asking, opener);
  const given = argumentsOf(call);
  if (!given) return null;
  const run = () => {
    setAsking(false);
    void hand.run(given, call.approval !== undefined);
  };
  if (hand.startedAt !== undefined) {
    return (
      <button type="button" class="plain small" ref={opener} onClick={hand.cancel}>
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
        <button type="button" class="plain small" ref={takesFocus} onClick={() => setAsking(false)}>
          Leave it
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

interface ByHandProps {
  call: CallView;
  hand: Hand;
  onTell?: ((text: string) => void) | undefined;
}

/** What came of it; the model is told if one likes. */
export function ByHand({ call, hand, onTell }: ByHandProps) {
  const { startedAt, problem, result } = hand;
  if (startedAt !== undefined) return <p class="hint">Running by hand…</p>;
  if (problem) return <Failure text={problem} />;
  return result ? <HandResult call={call} result={result} onTell={onTell} /> : null;
}

interface HandResultProps extends Omit<ByHandProps, "hand"> {
  result: ToolAnswer;
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
      {error === undefined ? <Value value={value} /> : <Failure text={error} />}
    </section>
  );
}
