// The prompt of a run.
import { LongText } from "../parts/longtext";
import type { Message } from "../wire/types";

/** The user's messages at the end of a conversation: the prompt of a run. Pure. */
export function asked(messages: readonly Message[]): readonly Message[] {
  const before = messages.findLastIndex(({ role }) => role === "assistant" || role === "tool");
  return messages.slice(before + 1).filter(({ role }) => role === "user");
}

export function Prompt({ messages }: { messages: readonly Message[] }) {
  return (
    <section class="question bubble" aria-label="Prompt">
      {asked(messages)
        .flatMap(({ parts }) => parts)
        .map((part) => {
          if (part.type === "text") return <LongText text={part.text} />;
          if (part.type !== "inline_data" || !part.mime_type.startsWith("image/")) return null;
          return <img class="said-image" src={`data:${part.mime_type};base64,${part.data}`} alt="Image in the prompt" />;
        })}
    </section>
  );
}
