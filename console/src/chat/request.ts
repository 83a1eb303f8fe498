// The request for a message. Pure.
import { asked as lastAsked } from "../run/prompt";
import type { RunView } from "../run/view";
import type { ChatCompletionRequest, ChatMessage, ChatToolCall, ContentPart, InlineData, Message, Model, ToolChoice } from "../wire/types";
import type { Settings } from "./settings";
import { numberOf } from "./parameters";

/** A file of a message, other than an image: its text, or its `data:` URL if it is not text. */
export type AttachedFile = { name: string } & ({ text: string } | { url: string });

/** A message that the user writes: a text, images as `data:` URLs, and other files. */
export interface Draft {
  text: string;
  images: readonly string[];
  files: readonly AttachedFile[];
}

export const NOTHING: Draft = { text: "", images: [], files: [] };

export function isEmpty(draft: Draft): boolean {
  return !draft.text.trim() && !draft.images.length && !draft.files.length;
}

/** Two drafts as one. */
export function joined(first: Draft, then: Draft): Draft {
  const text = [first.text, then.text].filter((each) => each.trim()).join("\n\n");
  return { text, images: [...first.images, ...then.images], files: [...first.files, ...then.files] };
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
  if (!draft.images.length && !draft.files.length) return { role: "user", content: draft.text };
  const pictures = draft.images.map((url): ContentPart => ({ type: "image_url", image_url: { url } }));
  const text: ContentPart[] = draft.text.trim() ? [{ type: "text", text: draft.text }] : [];
  return { role: "user", content: [...text, ...draft.files.map(filePart), ...pictures] };
}

/** A text file is text for every model; its name is in the tag around it. */
function filePart(file: AttachedFile): ContentPart {
  if ("text" in file) return { type: "text", text: `<file name="${file.name.replace(/["\n]/g, "_")}">\n${file.text}\n</file>` };
  return { type: "file", file: { filename: file.name, file_data: file.url } };
}

const FILE = /^<file name="([^"\n]*)">\n([^]*)\n<\/file>$/;

/** Why the model cannot take the attachments of a draft, or "". */
export function unfit(draft: Draft, model: Model | undefined): string {
  const taken = model?.windlass.attachments ?? [];
  const refused = [
    draft.images.length && !taken.includes("image") && "images",
    draft.files.some((file) => "url" in file) && !taken.includes("file") && "PDF files",
  ].filter(Boolean);
  if (!model || !refused.length) return "";
  return `The model ${model.id} cannot read ${refused.join(" or ")}. Remove the attachment or choose another model.`;
}

/** The user's last message, from the messages that a run started with. */
export function asked(messages: readonly Message[]): Draft {
  const parts = lastAsked(messages).flatMap((message) => message.parts);
  const draft = { text: [] as string[], images: [] as string[], files: [] as AttachedFile[] };
  for (const part of parts) {
    if (part.type === "text") {
      const file = FILE.exec(part.text);
      if (file) draft.files.push({ name: file[1] ?? "", text: file[2] ?? "" });
      else draft.text.push(part.text);
    } else if (part.type === "inline_data") {
      const url = `data:${part.mime_type};base64,${part.data}`;
      if (part.mime_type.startsWith("image/")) draft.images.push(url);
      else draft.files.push({ name: fileName(part), url });
    } else if (part.type === "file_data") draft.images.push(part.uri);
  }
  return { ...draft, text: draft.text.join("\n\n") };
}

/** The name is in what the wire adds to the part. */
function fileName(part: InlineData): string {
  const { openai } = (part.extra ?? {}) as { openai?: { file?: { filename?: unknown } } };
  return String(openai?.file?.filename ?? part.mime_type);
}

/** The turns and results of a run, as messages for a later request. */
export function turnsOf(view: RunView): ChatMessage[] {
  return view.rounds.filter((round) => !round.superseded && !round.rejected).flatMap((round) => {
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
