// The gateway's tools, as a run's cards need them.
import { request } from "../wire/api";
import type { FunctionResponse, ToolRunEnded } from "../wire/types";
import type { Arguments } from "./payload";

/** What a call by hand came to. */
export interface HandCall {
  outcome: ToolRunEnded["outcome"];
  response: Record<string, unknown>;
  parts?: NonNullable<FunctionResponse["parts"]>;
  seconds: number;
  effect_unknown?: boolean;
}

function addressOf(name: string): string {
  return `/v1/tools/${encodeURIComponent(name)}`;
}

export async function toolNamed(name: string): Promise<{ parameters: Record<string, unknown> }> {
  return (await request(addressOf(name))).json();
}

/** Runs a tool by the rules that hold for a model's calls; to abort it is to cancel the tool. */
export async function callByHand(name: string, given: Arguments, approved: boolean, signal: AbortSignal): Promise<HandCall> {
  const response = await request(`${addressOf(name)}/call`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ arguments: given, approved }),
    signal,
  });
  return response.json();
}
