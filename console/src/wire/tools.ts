// The tools that the gateway offers, and what was last done with them.
import { request } from "./api";
import type { ToolRunEnded } from "./types";

/** A call that was answered; of what is long, a part. */
export interface LastCall {
  /** Null for a call that a person made. */
  run_id: string | null;
  call_id: string;
  time: number;
  seconds: number;
  outcome: ToolRunEnded["outcome"];
  arguments: Record<string, unknown> | string;
  response: Record<string, unknown> | null;
  by_hand: boolean;
}

export interface OfferedTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
  approve: boolean;
  idempotent: boolean;
  models: string[];
  /** `gateway`, `mcp:SERVER` or `worker:SESSION`. */
  origin: string;
  calls: { count: number; failures: number; last: LastCall[] };
}

export async function offeredTools(): Promise<OfferedTool[]> {
  return (await (await request("/v1/tools")).json()).data;
}

export async function offeredTool(name: string): Promise<OfferedTool> {
  return (await request(`/v1/tools/${encodeURIComponent(name)}`)).json();
}
