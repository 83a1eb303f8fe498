// What the page shows of a run: values that the fold makes of its events.
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
  /** What the person put in place of the model's arguments. */
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
}

export interface Progress {
  fraction: number | null;
  message: string | null;
  data: unknown;
}

/** A call, from the model's first word of it to its one answer. Times are Unix seconds. */
export interface CallView {
  id: string;
  name: string;
  round: number;
  state: CallState;
  /** The argument text as far as it has come. */
  input: string;
  saidAt: number;
  approval?: Approval;
  startedAt?: number;
  progress?: Progress;
  endedAt?: number;
  outcome?: ToolRunEnded["outcome"];
  response?: FunctionResponse;
  /** What the tool itself took. */
  seconds: number;
  attempts: number;
  cached: boolean;
  /** It had started and was cut off: it may or may not have had its effect. */
  effectUnknown: boolean;
  /** The tool raised an unexpected exception: the gateway's log has the traceback. */
  crashed: boolean;
}

export type Item =
  | { kind: "text"; text: string }
  | { kind: "thought"; text: string }
  | { kind: "media"; part: InlineData | FileData }
  | { kind: "call"; id: string };

/** One request to the model and what came of it. */
export interface RoundView {
  number: number;
  /** No tools were offered in it: the model had to answer. */
  toolsOff: boolean;
  startedAt: number;
  /** When the model's turn was over; its tools may have run on. */
  endedAt?: number;
  finish?: TurnEnded["finish"];
  usage: Usage;
  items: readonly Item[];
  /** It was cut off, and the model was asked again: the next round has the same number. */
  superseded: boolean;
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
  /** A sentence for the person who waits. */
  status: string;
  resumedAt: readonly number[];
  reason?: RunEnded["reason"];
  error?: string | null;
  usage: Usage;
}
