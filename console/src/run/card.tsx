// The card of a call: its arguments, progress, approval and result.
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Failure } from "../parts/failure";
import { fieldsIn, oneLine, withoutPictures } from "../parts/format";
import { Image, Value } from "../parts/value";
import { askAgain, isAllowed } from "./allowed";
import { ApprovalPanel } from "./approval";
import { RunAgain, ManualRun } from "./manual";
import { Elapsed } from "./elapsed";
import { Collapsible } from "./collapsible";
import { useManualCall } from "./manualcall";
import { memo } from "./memo";
import { argumentsOf, errorIn, objectIn, resultOf, writtenSoFar } from "./payload";
import { effectOf, effectLabel, plural, stateOf } from "./labels";
import type { CallView, Progress } from "./view";
import "../styles/run.css";

export interface CallCardProps {
  call: CallView;
  runId: string;
  /** Whether calls can be approved. */
  live: boolean;
  /** Whether the tool can be run again manually. */
  again: boolean;
  now: ReadonlySignal<number>;
  /** The chat of the run, if it has one. */
  chatId?: string | undefined;
  /** The model of the run. */
  model: string;
  onAddToMessage?: ((text: string) => void) | undefined;
}

export const CallCard = memo(function CallCard({ call, runId, live, again, now, chatId, model, onAddToMessage }: CallCardProps) {
  const card = useRef<HTMLElement>(null);
  const manual = useManualCall(call.name);
  const effect = effectOf(call);
  const repeatable = again && call.outcome !== undefined && call.outcome !== "unknown_tool";
  const waiting = call.state === "approval-requested";
  return (
    <article
      class="card"
      ref={card}
      tabIndex={-1}
      aria-label={`${call.name}: ${stateOf(call).toLowerCase()}`}
      data-state={call.state}
      data-tool={call.name}
      data-call={call.id}
      data-outcome={call.outcome}
      data-effect={effect}
    >
      <Head call={call} now={now}>
        {repeatable && <RunAgain call={call} manual={manual} />}
      </Head>
      {(!waiting || !live) && <Input call={call} />}
      {call.state === "running" && call.progress && <Reported progress={call.progress} name={call.name} />}
      {waiting && live && <ApprovalPanel call={call} runId={runId} chatId={chatId} model={model} card={card} now={now} />}
      {call.approval?.answered !== undefined && <Decision call={call} chatId={chatId} />}
      <Output call={call} />
      {effect && call.outcome !== "not_run" && (
        <p class="card-effect" data-effect={effect}>
          {effectLabel(call)}
        </p>
      )}
      <ManualRun call={call} manual={manual} onAddToMessage={onAddToMessage} />
    </article>
  );
});

interface HeadProps {
  call: CallView;
  now: ReadonlySignal<number>;
  children: ComponentChildren;
}

function Head({ call, now, children }: HeadProps) {
  const waited = call.state === "approval-requested" ? call.approval?.asked : undefined;
  const from = waited ?? call.startedAt;
  return (
    <header class="card-head">
      <span class="card-mark" aria-hidden="true" />
      <code class="card-name">{call.name}</code>
      <span class="card-state">{stateOf(call)}</span>
      {call.attempts > 1 && <span class="hint">{plural(call.attempts, "attempt")}</span>}
      {call.cached && <span class="hint">cached</span>}
      <span class="grow" />
      {from !== undefined && <Elapsed from={from} to={waited === undefined ? call.endedAt : undefined} now={now} />}
      {children}
    </header>
  );
}

/** The characters shown from the end of arguments that are being written. */
const TAIL = 2_000;

function Input({ call }: { call: CallView }) {
  if (call.state === "input-streaming") {
    return (
      <pre class="card-writing">
        <code>{writtenSoFar(call.input, TAIL)}</code>
      </pre>
    );
  }
  const value = argumentsOf(call) ?? call.input;
  if (typeof value === "object" && !fieldsIn(value)) return <p class="hint">No arguments.</p>;
  return (
    <Collapsible label="Arguments" preview={oneLine(value)}>
      {() => <Value value={value} named />}
    </Collapsible>
  );
}

function Reported({ progress, name }: { progress: Progress; name: string }) {
  const { fraction, message, data } = progress;
  return (
    <div class="card-progress">
      {fraction === null ? <progress aria-label={`Progress of ${name}`} /> : <progress aria-label={`Progress of ${name}`} max={1} value={fraction} />}
      {fraction !== null && <span class="hint">{Math.round(fraction * 100)} %</span>}
      {message && <span class="hint">{message}</span>}
      {data !== undefined && data !== null && <span class="folded-preview">{oneLine(data)}</span>}
    </div>
  );
}

function Decision({ call, chatId }: { call: CallView; chatId: string | undefined }) {
  const { approved, arguments: edited, reason } = call.approval ?? {};
  if (!approved) return call.outcome ? null : <p class="hint">Denied{reason ? `: ${reason}` : "."}</p>;
  if (!edited) return <Approved name={call.name} chatId={chatId} />;
  const original = objectIn(call.input) ?? call.input;
  return (
    <Collapsible label="Approved with edited arguments. Original" preview={oneLine(original)}>
      {() => <Value value={original} named />}
    </Collapsible>
  );
}

function Approved({ name, chatId }: { name: string; chatId: string | undefined }) {
  if (!chatId || !isAllowed(chatId, name)) return <p class="hint">Approved.</p>;
  return (
    <p class="hint row">
      Approved. Calls of {name} are always allowed in this chat.
      <button type="button" class="small" onClick={() => askAgain(chatId, name)}>
        Ask again
      </button>
    </p>
  );
}

function Output({ call }: { call: CallView }) {
  // The text about the effect covers these outcomes.
  if (!call.response || call.outcome === "stopped" || call.outcome === "interrupted") return null;
  const error = errorIn(call.response.response);
  if (error !== undefined) return <Failure text={error} log={call.crashed ? call.id : ""} />;
  const { rest, pictures } = withoutPictures(resultOf(call.response));
  return (
    <>
      {(rest !== "" || !pictures.length) && (
        <Collapsible label="Result" preview={oneLine(rest)}>
          {() => <Value value={rest} />}
        </Collapsible>
      )}
      {pictures.map((picture) => <Image picture={picture} />)}
    </>
  );
}
