// What a person asked.
import { Long } from "../parts/long";
import type { Message } from "../wire/types";

/** The person's words at the end of a conversation: what a run is to answer. Pure. */
export function asked(messages: readonly Message[]): readonly Message[] {
  const before = messages.findLastIndex(({ role }) => role === "assistant" || role === "tool");
  return messages.slice(before + 1).filter(({ role }) => role === "user");
}

export function Question({ messages }: { messages: readonly Message[] }) {
  return (
    <section class="question" aria-label="Question">
      {asked(messages)
        .flatMap(({ parts }) => parts)
        .map((part) => {
          if (part.type === "text") return <Long text={part.text} />;
          if (part.type !== "inline_data" || !part.mime_type.startsWith("image/")) return null;
          return <img class="said-image" src={`data:${part.mime_type};base64,${part.data}`} alt="An image by the person" />;
        })}
    </section>
  );
}
