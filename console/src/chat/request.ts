// The request for a message. Pure.
import { asked as lastAsked } from "../run/prompt";
import type { RunView } from "../run/view";
import type { ChatCompletionRequest, ChatMessage, ChatToolCall, ContentPart, Message, Model, ToolChoice } from "../wire/types";
import type { Settings } from "./settings";
import { numberOf } from "./parameters";

/** A message that the user writes: a text, and images as `data:` URLs. */
export interface Draft {
  text: string;
  images: readonly string[];
}

export const NOTHING: Draft = { text: "", images: [] };

export function isEmpty(draft: Draft): boolean {
  return !draft.text.trim() && !draft.images.length;
}

/** Two drafts as one. */
export function joined(first: Draft, then: Draft): Draft {
  const text = [first.text, then.text].filter((each) => each.trim()).join("\n\n");
  return { text, images: [...first.images, ...then.images] };
}

/** A request with these messages, after the system prompt if there is one. */
export function requestFor(model: Model, settings: Settings, messages: readonly ChatMessage[]): ChatCompletionRequest {
  const system: ChatMessage[] = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  const given = {
    tool_choice: toolChoice(model.windlass.tools, settings.without),
    temperature: numberOf(settings, "temperature"),
    top_p: numberOf(settings, "top_p"),
    max_completion_tokens: numberOf(settings, "max_tokens"),
    seed: numberOf(settings, "seed"),
  };
  return {
    model: model.id,
    messages: [...system, ...messages],
    ...(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<typeof given>),
  } as ChatCompletionRequest;
}

/** Undefined for all tools of the model, `none` for no tools, otherwise the list of allowed tools. */
export function toolChoice(offered: readonly string[], without: readonly string[]): ToolChoice | undefined {
  const chosen = offered.filter((name) => !without.includes(name));
  if (chosen.length === offered.length) return undefined;
  if (!chosen.length) return "none";
  const tools = chosen.map((name) => ({ type: "function" as const, function: { name } }));
  return { type: "allowed_tools", allowed_tools: { mode: "auto", tools } };
}

export function messageOf(draft: Draft): ChatMessage {
  if (!draft.images.length) return { role: "user", content: draft.text };
  const pictures = draft.images.map((url): ContentPart => ({ type: "image_url", image_url: { url } }));
  const text: ContentPart[] = draft.text.trim() ? [{ type: "text", text: draft.text }] : [];
  return { role: "user", content: [...text, ...pictures] };
}

/** The user's last message, from the messages that a run started with. */
export function asked(messages: readonly Message[]): Draft {
  const parts = lastAsked(messages).flatMap((message) => message.parts);
  const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  const images = parts.flatMap((part) => {
    if (part.type === "inline_data") return [`data:${part.mime_type};base64,${part.data}`];
    return part.type === "file_data" ? [part.uri] : [];
  });
  return { text: text.join("\n\n"), images };
}

/** The turns and results of a run, as messages for a later request. */
export function turnsOf(view: RunView): ChatMessage[] {
  return view.rounds.filter((round) => !round.superseded).flatMap((round) => {
    const text = round.items.flatMap((item) => (item.kind === "text" ? [item.text] : [])).join("");
    const calls = round.items.flatMap((item) => {
      const call = item.kind === "call" ? view.calls.get(item.id) : undefined;
      return call?.response ? [call] : [];
    });
    if (!text && !calls.length) return [];
    const said = calls.map((call): ChatToolCall => {
      return { id: call.id, type: "function", function: { name: call.name, arguments: call.input || "{}" } };
    });
    const turn: ChatMessage = { role: "assistant", content: text || null, ...(said.length && { tool_calls: said }) };
    const results = calls.map((call): ChatMessage => {
      return { role: "tool", tool_call_id: call.id, content: JSON.stringify(call.response?.response) };
    });
    return [turn, ...results];
  });
}

/** The text of all turns of a run, without thoughts. */
export function answerOf(view: RunView): string {
  const said = turnsOf(view).filter(({ role }) => role === "assistant");
  return said.flatMap(({ content }) => (typeof content === "string" ? [content] : [])).join("\n\n");
}
