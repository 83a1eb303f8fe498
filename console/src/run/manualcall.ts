// Calling a tool manually, one call at a time.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { api, refusal } from "../wire/api";
import { serverNow } from "../wire/clock";
import type { ToolAnswer } from "../wire/types";
import type { Arguments } from "./payload";
import { OUTCOME_LABELS } from "./labels";

export type ManualCall = ReturnType<typeof useManualCall>;

/** `idempotent` means that the tool can safely run twice. Cancelling the call cancels the tool. */
export function useManualCall(name: string, idempotent = false) {
  const [startedAt, setStartedAt] = useState<number>();
  const [result, setResult] = useState<ToolAnswer>();
  const [problem, setProblem] = useState("");
  const cancelling = useRef<AbortController>(undefined);
  useEffect(() => () => cancelling.current?.abort(), []);
  const run = async (given: Arguments, approved: boolean) => {
    const { signal } = (cancelling.current = new AbortController());
    setStartedAt(serverNow());
    setResult(undefined);
    setProblem("");
    announce(`${name} is running.`);
    try {
      const answer = await api.callTool(name, { arguments: given, approved }, signal);
      setResult(answer);
      announce(`${name}: ${OUTCOME_LABELS[answer.outcome].toLowerCase()}.`);
    } catch (error) {
      setProblem(signal.aborted ? cancelled(idempotent) : refusal(error));
      announce(signal.aborted ? `${name} was cancelled.` : `${name} was not called.`);
    }
    setStartedAt(undefined);
  };
  return { startedAt, result, problem, run, cancel: () => cancelling.current?.abort() };
}

function cancelled(idempotent: boolean): string {
  return idempotent ? "Cancelled. It is safe to call it again." : "Cancelled. It may have had an effect before it stopped.";
}
