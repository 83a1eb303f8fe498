// Tools that a person runs.
import { request } from "../wire/api";
import type { ToolAnswer } from "../wire/types";
import type { Arguments } from "./payload";

/** What a call by hand came to. */
export type HandCall = ToolAnswer;

/** Runs a tool by the rules that hold for a model's calls; to abort it is to cancel the tool. */
export async function callByHand(name: string, given: Arguments, approved: boolean, signal: AbortSignal): Promise<HandCall> {
  const response = await request(`/v1/tools/${encodeURIComponent(name)}/call`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ arguments: given, approved }),
    signal,
  });
  return response.json();
}
