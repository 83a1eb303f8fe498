// A form that calls a tool manually.
import { useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { problemsIn } from "../parts/draft";
import { Failure } from "../parts/failure";
import { SchemaForm } from "../parts/form";
import { fieldsOf, type Fields } from "../parts/schema";
import { Value } from "../parts/value";
import { Elapsed } from "../run/elapsed";
import { useManualCall } from "../run/manualcall";
import { errorIn, resultOf } from "../run/payload";
import { OUTCOME_LABELS, lasted } from "../run/labels";
import { useNow } from "../wire/clock";
import type { Tool, ToolAnswer } from "../wire/types";

/** The contents of the form. */
export interface Given {
  value: Fields;
  /** Whether all fields are valid. */
  valid: boolean;
}

interface CallFormProps {
  tool: Tool;
  given: Given;
  setGiven: (given: Given) => void;
  /** Called when a call has finished. */
  called: () => void;
}

export function CallForm({ tool, given, setGiven, called }: CallFormProps) {
  const [tried, setTried] = useState(false);
  const manual = useManualCall(tool.name, tool.idempotent);
  const form = useRef<HTMLFormElement>(null);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (manual.startedAt !== undefined) return;
    setTried(true);
    if (!given.valid || problemsIn(fieldsOf(tool.parameters) ?? [], given.value).size) {
      announce("Some fields are missing or invalid.");
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
      return;
    }
    void manual.run(given.value, tool.approve).then(called);
  };
  const sendOnEnter = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.current?.requestSubmit();
  };
  return (
    <form ref={form} class="tools-call" noValidate onSubmit={submit} onKeyDown={sendOnEnter}>
      <SchemaForm schema={tool.parameters} value={given.value} onChange={(value, valid) => setGiven({ value, valid })} checked={tried} />
      {tool.approve && <p class="hint">When a model calls this tool, a person has to approve the call. A call from this form counts as approved.</p>}
      <div class="row">
        <button type="submit" class="main" title="Call (Ctrl+Enter)" aria-disabled={manual.startedAt !== undefined}>
          {tool.approve ? "Approve and call" : "Call"}
        </button>
        {manual.startedAt !== undefined && <Running startedAt={manual.startedAt} cancel={manual.cancel} />}
      </div>
      {manual.problem && <p class="tools-problem">{manual.problem}</p>}
      {manual.result && <Result result={manual.result} />}
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
    <section class="tools-result" aria-label="Result of the call" data-outcome={result.outcome}>
      <p class={result.outcome === "ok" ? "tools-good" : "tools-bad"}>
        {OUTCOME_LABELS[result.outcome]} in {lasted(result.seconds)}
        {result.effect_unknown && ". It was interrupted while running and may have had an effect"}
      </p>
      {error === undefined ? <Value value={resultOf(result)} label="Result" /> : <Failure text={error} log={result.crashed ? result.call_id : ""} />}
    </section>
  );
}
