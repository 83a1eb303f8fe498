// Approving or denying a call, by mouse and keyboard.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { SchemaForm } from "../parts/form";
import { api, ApiError, refusal } from "../wire/api";
import { argumentsOf, type Arguments } from "./payload";
import type { CallView } from "./view";

interface ApprovalProps {
  call: CallView;
  runId: string;
  card: RefObject<HTMLElement | null>;
}

type Choices = Record<string, () => void>;
type Answer = { approved: boolean; arguments?: Arguments; reason?: string };

/** Milliseconds before keys count: a user who is typing when the focus moves to a card has not read it. */
const READING_TIME = 400;

/** The choices for a call that waits for approval. */
export function ApprovalPanel({ call, runId, card }: ApprovalProps) {
  const [editing, setEditing] = useState(false);
  const [sent, setSent] = useState(false);
  const [problem, setProblem] = useState("");
  const reason = useRef<HTMLInputElement>(null);
  const decide = async (answer: Answer) => {
    if (sent) return;
    setSent(true);
    setProblem("");
    try {
      await api.approve(runId, { call_id: call.id, ...answer });
      (nextWaiting(card.current) ?? card.current)?.focus();
    } catch (error) {
      setSent(false);
      setProblem(undecided(error));
    }
  };
  const deny = () => void decide({ approved: false, reason: reason.current?.value ?? "" });
  const back = () => {
    setEditing(false);
    card.current?.focus();
  };
  const choices: Choices = {
    a: () => void decide({ approved: true }),
    e: () => setEditing(true),
    d: deny,
  };
  const ready = useKeys(card, editing || sent ? {} : choices, editing ? back : undefined);
  useAsked(call, card);
  return (
    <div class="approval">
      {call.approval?.why && <p>{call.approval.why}</p>}
      {editing ? (
        <Edit call={call} sent={sent} approve={(edited) => void decide({ approved: true, arguments: edited })} back={back} />
      ) : (
        <form class="row" onSubmit={submitting(deny)}>
          <Choice name="Approve" letter="a" class="main" sent={sent} choose={choices} />
          <Choice name="Edit" letter="e" sent={sent} choose={choices} />
          <Choice name="Deny" letter="d" class="danger" sent={sent} choose={choices} />
          <input class="grow" ref={reason} autocomplete="off" aria-label="Reason for denying, shown to the model" placeholder="Reason for denying" />
        </form>
      )}
      {!editing && (
        <p class="hint" data-ready={ready}>
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
  sent: boolean;
  approve: (edited: Arguments) => void;
  back: () => void;
}

function Edit({ call, sent, approve, back }: EditProps) {
  const [edited, setEdited] = useState({ value: argumentsOf(call) ?? {}, valid: true });
  const [tried, setTried] = useState(false);
  const schema = useSchema(call.name);
  const submit = () => {
    setTried(true);
    if (edited.valid) approve(edited.value);
  };
  if (!schema) return <p class="hint">Loading the tool's parameters…</p>;
  return (
    <form class="approval-edit" onSubmit={submitting(submit)} ref={focusFirst} noValidate>
      <SchemaForm schema={schema} value={edited.value} onChange={(value, valid) => setEdited({ value, valid })} checked={tried} />
      <div class="row">
        <button type="submit" class="main" aria-disabled={sent}>
          Approve changes
        </button>
        <button type="button" title="Back (Escape)" onClick={back}>
          Back
        </button>
      </div>
    </form>
  );
}

/** An unknown tool takes any object. */
function useSchema(name: string): Record<string, unknown> | undefined {
  const [schema, setSchema] = useState<Record<string, unknown>>();
  useEffect(() => {
    api.tool(name).then(
      (tool) => setSchema(tool.parameters),
      () => setSchema({ type: "object" }),
    );
  }, [name]);
  return schema;
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
function useAsked(call: CallView, card: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    if (!isBusy(document.activeElement)) card.current?.focus();
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
