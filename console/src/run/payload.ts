// The arguments and the result of a call as values. Pure.
import type { FunctionResponse } from "../wire/types";
import { shownOf, withoutPictures, type Picture } from "../parts/format";
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

/** Arguments that are being written: a line for each name, from the end of the text. */
export function writtenSoFar(text: string, most: number): string {
  if (text.length > MAX_READ) return text.slice(-most);
  const lines = Object.entries(objectIn(completed(text)) ?? {}).map(([name, value]) => `${name}: ${shownOf(value)}`);
  return lines.join("\n").slice(-most);
}

/** The text is read again with each piece of it, so only a short one is. */
const MAX_READ = 20_000;

/** The beginning of a JSON object, without what is incomplete at its end and with closed brackets. */
export function completed(text: string): string {
  const open: string[] = [];
  let [inText, whole] = [false, ""];
  for (let at = 0; at < text.length; at++) {
    const sign = text[at] ?? "";
    if (inText && sign === "\\") at++;
    else if (sign === '"') inText = !inText;
    else if (!inText && (sign === "{" || sign === "[")) open.push(sign === "{" ? "}" : "]");
    else if (!inText && (sign === "}" || sign === "]")) open.pop();
    else if (!inText && sign === "," && open.length === 1) whole = text.slice(0, at) + "}";
  }
  const closed = text + (inText ? '"' : "") + open.reverse().join("");
  return objectIn(closed) ? closed : whole;
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

/** The images in the result of a call. */
export function picturesOf({ response }: CallView): Picture[] {
  return response && errorIn(response.response) === undefined ? withoutPictures(resultOf(response)).pictures : [];
}

const MAX_RESULT = 20_000;

/** The result of a manual run as a message to the model. */
export function manualRunMessage(name: string, given: Arguments, result: unknown): string {
  const text = typeof result === "string" ? result : JSON.stringify(result, null, 2);
  const cut = text.length > MAX_RESULT ? `${text.slice(0, MAX_RESULT)}\n(${text.length - MAX_RESULT} more characters omitted)` : text;
  return `I ran ${name} manually with ${JSON.stringify(given)}. It returned:\n\n${cut}`;
}
