// A tool that a person calls by hand.
import { useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { problemsIn } from "../parts/draft";
import { Failure } from "../parts/failure";
import { SchemaForm } from "../parts/form";
import { fieldsOf, type Fields } from "../parts/schema";
import { Value } from "../parts/value";
import { Elapsed } from "../run/elapsed";
import { useHand } from "../run/hand";
import { errorIn, resultOf } from "../run/payload";
import { OUTCOME_WORDS, lasted } from "../run/words";
import { useNow } from "../wire/clock";
import type { Tool, ToolAnswer } from "../wire/types";

/** What stands in the form. */
export interface Given {
  value: Fields;
  /** Whether all of it could be read. */
  valid: boolean;
}

interface CallByHandProps {
  tool: Tool;
  given: Given;
  setGiven: (given: Given) => void;
  /** A call has ended: its tool has one more. */
  called: () => void;
}

export function CallByHand({ tool, given, setGiven, called }: CallByHandProps) {
  const [tried, setTried] = useState(false);
  const hand = useHand(tool.name, tool.idempotent);
  const form = useRef<HTMLFormElement>(null);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (hand.startedAt !== undefined) return;
    setTried(true);
    if (!given.valid || problemsIn(fieldsOf(tool.parameters) ?? [], given.value).size) {
      announce("Something in the form is not right yet.");
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
      return;
    }
    void hand.run(given.value, tool.approve).then(called);
  };
  const sendOnEnter = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
  };
  return (
    <form ref={form} class="tools-call" noValidate onSubmit={submit} onKeyDown={sendOnEnter}>
      <SchemaForm schema={tool.parameters} value={given.value} onChange={(value, valid) => setGiven({ value, valid })} checked={tried} />
      {tool.approve && <p class="hint">A model has to ask before it runs this. If you call it here, that is your yes.</p>}
      <div class="row">
        <button type="submit" class="main" title="Call (Ctrl+Enter)" aria-disabled={hand.startedAt !== undefined}>
          {tool.approve ? "Approve and call" : "Call"}
        </button>
        {hand.startedAt !== undefined && <Running startedAt={hand.startedAt} cancel={hand.cancel} />}
      </div>
      {hand.problem && <p class="tools-problem">{hand.problem}</p>}
      {hand.result && <Result result={hand.result} />}
    </form>
  );
}

function Running({ startedAt, cancel }: { startedAt: number; cancel: () => void }) {
  const now = useNow(true);
  return (
    <>
      <button type="button" onClick={cancel}>
        Cancel
      </button>
      <span class="hint">
        Running, <Elapsed from={startedAt} now={now} />
      </span>
    </>
  );
}

function Result({ result }: { result: ToolAnswer }) {
  const error = errorIn(result.response);
  return (
    <section class="tools-result" aria-label="What the call came to" data-outcome={result.outcome}>
      <p class={result.outcome === "ok" ? "tools-good" : "tools-bad"}>
        {OUTCOME_WORDS[result.outcome]} in {lasted(result.seconds)}
        {result.effect_unknown && ". It was cut off while it ran, so it may have had its effect"}
      </p>
      {error === undefined ? <Value value={resultOf(result)} label="Result" /> : <Failure text={error} log={result.crashed ? result.call_id : ""} />}
    </section>
  );
}
