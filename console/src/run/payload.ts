// The arguments and the result of a call as values. Pure.
import type { FunctionResponse } from "../wire/types";
import type { CallView } from "./view";

export type Arguments = Record<string, unknown>;

/** The arguments that a call runs with: the edited ones, or the model's. */
export function argumentsOf(call: CallView): Arguments | undefined {
  return call.approval?.arguments ?? objectIn(call.input || "{}");
}

/** The object in a JSON text, or undefined. */
export function objectIn(text: string): Arguments | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Arguments) : undefined;
  } catch {
    return undefined;
  }
}

/** The error text that the model receives, or undefined if the call succeeded. */
export function errorIn(response: Record<string, unknown>): string | undefined {
  return typeof response["error"] === "string" ? response["error"] : undefined;
}

/** The result of a tool, with its media if there are any. */
export function resultOf(response: Pick<FunctionResponse, "response" | "parts">): unknown {
  const output = "output" in response.response ? response.response["output"] : response.response;
  return response.parts?.length ? [output, ...response.parts] : output;
}

const MAX_RESULT = 20_000;

/** The result of a manual run as a message to the model. */
export function manualRunMessage(name: string, given: Arguments, result: unknown): string {
  const text = typeof result === "string" ? result : JSON.stringify(result, null, 2);
  const cut = text.length > MAX_RESULT ? `${text.slice(0, MAX_RESULT)}\n(${text.length - MAX_RESULT} more characters omitted)` : text;
  return `I ran ${name} manually with ${JSON.stringify(given)}. It returned:\n\n${cut}`;
}
