// The view of a run: the values that the fold makes from its events.
import type { FunctionResponse, InlineData, FileData, Message, RunEnded, ToolRunEnded, TurnEnded, Usage } from "../wire/types";

export type CallState =
  | "input-streaming"
  | "input-available"
  | "approval-requested"
  | "running"
  | "output-available"
  | "output-error"
  | "denied"
  | "cancelled";

export interface Approval {
  asked: number;
  why: string | null;
  answered?: number;
  approved?: boolean;
  /** The arguments that the user entered instead of the model's. */
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
}

export interface Progress {
  fraction: number | null;
  message: string | null;
  data: unknown;
}

/** A call, from its first delta to its result. Times are in Unix seconds. */
export interface CallView {
  id: string;
  name: string;
  round: number;
  state: CallState;
  /** The arguments received so far, as text. */
  input: string;
  saidAt: number;
  approval?: Approval;
  startedAt?: number;
  progress?: Progress;
  endedAt?: number;
  outcome?: ToolRunEnded["outcome"];
  response?: FunctionResponse;
  /** The time that the tool itself took. */
  seconds: number;
  attempts: number;
  cached: boolean;
  /** The call was interrupted after its start, so it may have had an effect. */
  effectUnknown: boolean;
  /** The tool raised an unexpected exception. The gateway's log has the traceback. */
  crashed: boolean;
}

export type Item =
  | { kind: "text"; text: string }
  | { kind: "thought"; text: string }
  | { kind: "media"; part: InlineData | FileData }
  | { kind: "call"; id: string };

/** One round: a request to the model, its turn and its calls. */
export interface RoundView {
  number: number;
  /** No tools were offered in this round, so the model had to answer. */
  toolsOff: boolean;
  startedAt: number;
  /** When the model's turn ended. Its tools may have run longer. */
  endedAt?: number;
  finish?: TurnEnded["finish"];
  usage: Usage;
  items: readonly Item[];
  /** The round was interrupted and retried: the next round has the same number. */
  superseded: boolean;
  /** Its answer did not match the requested schema, and the model was asked again. */
  rejected: boolean;
}

export interface RunView {
  id: string;
  model: string;
  messages: readonly Message[];
  maxRounds: number | null;
  startedAt: number;
  endedAt?: number;
  /** When the last event happened. */
  lastAt: number;
  lastSeq: number;
  rounds: readonly RoundView[];
  calls: ReadonlyMap<string, CallView>;
  /** The run's status text. */
  status: string;
  resumedAt: readonly number[];
  reason?: RunEnded["reason"];
  error?: string | null;
  usage: Usage;
}
