// What goes into a call and what comes out of it, as values. Pure.
import type { FunctionResponse } from "../wire/types";
import type { CallView } from "./view";

export type Arguments = Record<string, unknown>;

/** The arguments that a call runs with: the person's where they were edited, else the model's. */
export function argumentsOf(call: CallView): Arguments | undefined {
  return call.approval?.arguments ?? objectIn(call.input || "{}");
}

/** The object in a JSON text; nothing where there is none. */
export function objectIn(text: string): Arguments | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Arguments) : undefined;
  } catch {
    return undefined;
  }
}

/** Why a call failed, in the words that the model reads; nothing if it did not. */
export function errorIn(response: Record<string, unknown>): string | undefined {
  return typeof response["error"] === "string" ? response["error"] : undefined;
}

/** What a tool gave: with its media, where there are any. */
export function resultOf(response: Pick<FunctionResponse, "response" | "parts">): unknown {
  const output = "output" in response.response ? response.response["output"] : response.response;
  return response.parts?.length ? [output, ...response.parts] : output;
}

const TOLD = 20_000;

/** A call by hand as a message to the model. */
export function toldByHand(name: string, given: Arguments, result: unknown): string {
  const text = typeof result === "string" ? result : JSON.stringify(result, null, 2);
  const cut = text.length > TOLD ? `${text.slice(0, TOLD)}\n(${text.length - TOLD} more characters are left out)` : text;
  return `I ran ${name} with ${JSON.stringify(given)} by hand. It answered:\n\n${cut}`;
}
