// Approving or denying a call, by mouse and keyboard.
import type { ReadonlySignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { servedAs } from "../chat/models";
import { takesFocus } from "../focus";
import { SchemaForm } from "../parts/form";
import { Fields, Value } from "../parts/value";
import { useBadge } from "../title";
import { useToolInfo, withDefaults, type ToolInfo } from "../tools/info";
import { api, ApiError, refusal } from "../wire/api";
import { allow, isAllowed } from "./allowed";
import { wholeSeconds } from "./labels";
import { argumentsOf, type Arguments } from "./payload";
import type { CallView } from "./view";

interface ApprovalProps {
  call: CallView;
  runId: string;
  chatId: string | undefined;
  model: string;
  card: RefObject<HTMLElement | null>;
  now: ReadonlySignal<number>;
}

type Choices = Record<string, () => void>;
type Answer = { approved: boolean; arguments?: Arguments; reason?: string };
type Step = "choose" | "edit" | "deny";

/** Milliseconds before keys count: a user who is typing when the focus moves to a card has not read it. */
const READING_TIME = 400;

/** The choices for a call that waits for approval. */
export function ApprovalPanel({ call, runId, chatId, model, card, now }: ApprovalProps) {
  const [step, setStep] = useState<Step>("choose");
  const [sent, setSent] = useState(false);
  const [problem, setProblem] = useState("");
  const info = useToolInfo(call.name);
  const allowed = isAllowed(chatId, call.name);
  useBadge(!allowed);
  const decide = async (answer: Answer) => {
    if (sent) return;
    setSent(true);
    setProblem("");
    try {
      await api.approve(runId, { call_id: call.id, ...answer });
      if (!allowed) (nextWaiting(card.current) ?? card.current)?.focus();
    } catch (error) {
      setSent(false);
      setProblem(undecided(error));
    }
  };
  const back = () => {
    setStep("choose");
    card.current?.focus();
  };
  const approve = () => void decide({ approved: true });
  const always = () => {
    if (chatId) allow(chatId, call.name);
    approve();
  };
  const choices: Choices = { a: approve, e: () => setStep("edit"), d: () => setStep("deny") };
  const ready = useKeys(card, step !== "choose" || sent ? {} : choices, step === "choose" ? undefined : back);
  useAsked(call, card, !allowed);
  useEffect(() => {
    card.current?.querySelector("form")?.scrollIntoView({ block: "nearest" });
  }, [step, info]);
  useEffect(() => {
    if (allowed) approve();
  }, []);
  return (
    <div class="approval">
      {info?.description && <p class="approval-what">{info.description}</p>}
      {call.approval?.why && <p>{call.approval.why}</p>}
      {step !== "edit" && <ArgumentList call={call} info={info} />}
      {step === "edit" && (
        <Edit call={call} info={info} sent={sent} approve={(edited) => void decide({ approved: true, arguments: edited })} back={back} />
      )}
      {step === "deny" && <Deny sent={sent} deny={(reason) => void decide({ approved: false, reason })} back={back} />}
      {step === "choose" && (
        <div class="row">
          <Choice name="Approve" letter="a" class="main" sent={sent} choose={choices} />
          <Choice name="Edit" letter="e" sent={sent} choose={choices} />
          <Choice name="Deny" letter="d" class="danger" sent={sent} choose={choices} />
          {chatId && (
            <button type="button" class="plain small" aria-disabled={sent} onClick={always}>
              Always allow in this chat
            </button>
          )}
        </div>
      )}
      <Countdown call={call} model={model} now={now} />
      {step === "choose" && (
        <p class="hint approval-keys" data-ready={ready}>
          <kbd>a</kbd> approve, <kbd>e</kbd> edit, <kbd>d</kbd> deny
        </p>
      )}
      {problem && (
        <p class="card-error" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}

/** The arguments that the tool gets, including the defaults of those that the model left out. */
function ArgumentList({ call, info }: { call: CallView; info: ToolInfo | undefined }) {
  const given = argumentsOf(call);
  if (!given) return <Value value={call.input} label="Arguments" />;
  const all = withDefaults(info?.parameters ?? {}, given);
  if (!all.length) return <p class="hint">No arguments.</p>;
  return <Fields fields={all} label="Arguments" />;
}

/** The time until the call is denied, if the model's limit is known. */
function Countdown({ call, model, now }: Pick<ApprovalProps, "call" | "model" | "now">) {
  const served = servedAs(model);
  const asked = call.approval?.asked;
  if (!served || asked === undefined) return null;
  const left = asked + served.windlass.approval_timeout - now.value;
  return (
    <p class="hint countdown">
      {left > 0 ? `Without a decision, the call is denied in ${wholeSeconds(Math.ceil(left))}.` : "The time for a decision is over."}
    </p>
  );
}

interface DenyProps {
  sent: boolean;
  deny: (reason: string) => void;
  back: () => void;
}

function Deny({ sent, deny, back }: DenyProps) {
  const [reason, setReason] = useState("");
  return (
    <form class="approval-edit" onSubmit={submitting(() => deny(reason))}>
      <label>
        Reason (optional)
        <input autocomplete="off" value={reason} ref={takesFocus} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      <p class="hint">The model reads the reason.</p>
      <div class="row">
        <button type="submit" class="danger" aria-disabled={sent}>
          Deny
        </button>
        <button type="button" title="Cancel (Escape)" onClick={back}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function submitting(action: () => void): (event: SubmitEvent) => void {
  return (event) => {
    event.preventDefault();
    action();
  };
}

interface ChoiceProps {
  name: string;
  letter: string;
  class?: string;
  sent: boolean;
  choose: Choices;
}

function Choice({ name, letter, class: kind = "", sent, choose }: ChoiceProps) {
  return (
    <button type="button" class={kind} title={`${name} (${letter})`} aria-keyshortcuts={letter} aria-disabled={sent} onClick={choose[letter]}>
      {name}
    </button>
  );
}

interface EditProps {
  call: CallView;
  info: ToolInfo | undefined;
  sent: boolean;
  approve: (edited: Arguments) => void;
  back: () => void;
}

function Edit({ call, info, sent, approve, back }: EditProps) {
  const [edited, setEdited] = useState({ value: argumentsOf(call) ?? {}, valid: true });
  const [tried, setTried] = useState(false);
  const submit = () => {
    setTried(true);
    if (edited.valid) approve(edited.value);
  };
  if (!info) return <p class="hint">Loading the tool's parameters…</p>;
  return (
    <form class="approval-edit" onSubmit={submitting(submit)} ref={focusFirst} noValidate>
      <SchemaForm schema={info.parameters} value={edited.value} onChange={(value, valid) => setEdited({ value, valid })} checked={tried} />
      <div class="row">
        <button type="submit" class="main" aria-disabled={sent}>
          Approve changes
        </button>
        <button type="button" title="Cancel (Escape)" onClick={back}>
          Cancel
        </button>
      </div>
    </form>
  );
}

/** Handles single keys while the card has the focus. Returns whether they are active. */
function useKeys(card: RefObject<HTMLElement | null>, choices: Choices, back: (() => void) | undefined): boolean {
  const ready = useRead(card);
  const latest = useRef({ ready, choices, back });
  latest.current = { ready, choices, back };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { ready, choices, back } = latest.current;
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      if (event.key === "Escape" && back) {
        // Otherwise Escape would stop the run.
        event.stopPropagation();
        return back();
      }
      const choice = ready && !isField(event.target) ? choices[event.key] : undefined;
      if (!choice) return;
      event.preventDefault();
      choice();
    };
    const element = card.current;
    element?.addEventListener("keydown", pressed);
    return () => element?.removeEventListener("keydown", pressed);
  }, []);
  return ready;
}

/** Whether the focus has been in the card for long enough to read it. */
function useRead(card: RefObject<HTMLElement | null>): boolean {
  const [ready, setReady] = useState(false);
  useEffect(() => {
    const element = card.current;
    let timer = 0;
    const came = () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => setReady(true), READING_TIME);
    };
    const went = (event: FocusEvent) => {
      if (element?.contains(event.relatedTarget as Node | null)) return;
      clearTimeout(timer);
      setReady(false);
    };
    element?.addEventListener("focusin", came);
    element?.addEventListener("focusout", went);
    if (element?.contains(document.activeElement)) came();
    return () => {
      clearTimeout(timer);
      element?.removeEventListener("focusin", came);
      element?.removeEventListener("focusout", went);
    };
  }, []);
  return ready;
}

/** Focuses a call that waits for approval, unless the user is typing or already at another call. */
function useAsked(call: CallView, card: RefObject<HTMLElement | null>, wanted: boolean): void {
  useEffect(() => {
    if (wanted && !isBusy(document.activeElement)) card.current?.focus();
  }, [call.id]);
}

function isBusy(element: Element | null): boolean {
  if (element?.closest('.card[data-state="approval-requested"]')) return true;
  return isField(element) && (element as HTMLInputElement).value !== "";
}

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("input, textarea, select");
}

function nextWaiting(card: HTMLElement | null): HTMLElement | undefined {
  const waiting = document.querySelectorAll<HTMLElement>('.card[data-state="approval-requested"]');
  return [...waiting].find((each) => each !== card);
}

function undecided(error: unknown): string {
  const late = error instanceof ApiError && error.status === 409;
  return late ? "This call was already decided elsewhere." : refusal(error);
}

function focusFirst(form: HTMLElement | null): void {
  form?.querySelector<HTMLElement>("input, textarea, select")?.focus();
}
