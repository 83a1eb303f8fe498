// What a model writes, as Markdown. It becomes elements one by one, never markup.
import "../styles/parts.css";

/** `busy` while more of the text is to come. */
export function Markdown({ text }: { text: string; busy?: boolean }) {
  return <div class="md">{text}</div>;
}
