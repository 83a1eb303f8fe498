// A tool that a person runs, one call at a time.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { api, refusal } from "../wire/api";
import { serverNow } from "../wire/clock";
import type { ToolAnswer } from "../wire/types";
import type { Arguments } from "./payload";
import { OUTCOME_WORDS } from "./words";

export type Hand = ReturnType<typeof useHand>;

/** `harmless` is a tool that may be run twice. To cancel a call is to cancel its tool. */
export function useHand(name: string, harmless = false) {
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
    announce(`${name} runs.`);
    try {
      const answer = await api.callTool(name, { arguments: given, approved }, signal);
      setResult(answer);
      announce(`${name}: ${OUTCOME_WORDS[answer.outcome].toLowerCase()}.`);
    } catch (error) {
      setProblem(signal.aborted ? cancelled(harmless) : refusal(error));
      announce(signal.aborted ? `${name} is cancelled.` : `${name} was not called.`);
    }
    setStartedAt(undefined);
  };
  return { startedAt, result, problem, run, cancel: () => cancelling.current?.abort() };
}

function cancelled(harmless: boolean): string {
  return harmless ? "Cancelled. It is safe to call it again." : "Cancelled. It may have had its effect before that.";
}
