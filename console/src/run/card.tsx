// A call of a tool: what the model asks for, what becomes of it, and what a person can do about it.
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Failure } from "../parts/failure";
import { Value } from "../parts/value";
import { ApprovalPanel } from "./approval";
import { Again, ByHand } from "./byhand";
import { Elapsed } from "./elapsed";
import { Folded, oneLine } from "./folded";
import { useHand } from "./hand";
import { kept } from "./kept";
import { argumentsOf, errorIn, resultOf } from "./payload";
import { effectOf, effectWords, plural, stateOf } from "./words";
import type { CallView, Progress } from "./view";
import "../styles/run.css";

export interface CallCardProps {
  call: CallView;
  runId: string;
  /** Whether a call that waits can be decided about. */
  live: boolean;
  /** Whether the tool can be run again by hand. */
  again: boolean;
  now: ReadonlySignal<number>;
  onTell?: ((text: string) => void) | undefined;
}

export const CallCard = kept(function CallCard({ call, runId, live, again, now, onTell }: CallCardProps) {
  const card = useRef<HTMLElement>(null);
  const hand = useHand(call.name);
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
        {repeatable && <Again call={call} hand={hand} />}
      </Head>
      <Input call={call} />
      {call.state === "running" && call.progress && <Reported progress={call.progress} name={call.name} />}
      {waiting && live && <ApprovalPanel call={call} runId={runId} card={card} />}
      {call.approval?.answered !== undefined && <Decision call={call} />}
      <Output call={call} />
      {effect && call.outcome !== "not_run" && (
        <p class="card-effect" data-effect={effect}>
          {effectWords(call)}
        </p>
      )}
      <ByHand call={call} hand={hand} onTell={onTell} />
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
      {call.cached && <span class="hint">from the cache</span>}
      <span class="grow" />
      {from !== undefined && <Elapsed from={from} to={waited === undefined ? call.endedAt : undefined} now={now} />}
      {children}
    </header>
  );
}

/** How much of the end of a text one sees while it is written. */
const TAIL = 2_000;

function Input({ call }: { call: CallView }) {
  if (call.state === "input-streaming") {
    return (
      <pre class="card-writing">
        <code>{call.input.slice(-TAIL)}</code>
      </pre>
    );
  }
  const value = argumentsOf(call) ?? call.input;
  return (
    <Folded label="Arguments" preview={oneLine(value)} open={call.state === "approval-requested"}>
      {() => <Value value={value} />}
    </Folded>
  );
}

function Reported({ progress, name }: { progress: Progress; name: string }) {
  const { fraction, message, data } = progress;
  return (
    <div class="card-progress">
      {fraction === null ? <progress aria-label={`Progress of ${name}`} /> : <progress aria-label={`Progress of ${name}`} max={1} value={fraction} />}
      {fraction !== null && <span class="hint">{Math.round(fraction * 100)} %</span>}
      {message && <span class="hint">{message}</span>}
      {data !== undefined && data !== null && <code class="folded-preview">{oneLine(data)}</code>}
    </div>
  );
}

function Decision({ call }: { call: CallView }) {
  const { approved, arguments: edited, reason } = call.approval ?? {};
  if (!approved) return call.outcome ? null : <p class="hint">Denied{reason ? `: ${reason}` : "."}</p>;
  if (!edited) return <p class="hint">Approved by a person.</p>;
  return (
    <Folded label="Approved with other arguments. The model's" preview={oneLine(call.input)}>
      {() => <Value value={call.input} />}
    </Folded>
  );
}

function Output({ call }: { call: CallView }) {
  // What is said of its effect says all of these.
  if (!call.response || call.outcome === "stopped" || call.outcome === "interrupted") return null;
  const error = errorIn(call.response.response);
  if (error !== undefined) return <Failure text={error} log={call.crashed ? call.id : ""} />;
  const result = resultOf(call.response);
  return (
    <Folded label="Result" preview={oneLine(result)}>
      {() => <Value value={result} />}
    </Folded>
  );
}
