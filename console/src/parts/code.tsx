// Preformatted text with a copy button.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { highlighted } from "./highlight";
import "../styles/parts.css";

const MESSAGE_TIME = 2_000;

/** Copies a text, or the result of a function for text that is expensive to build. `of` completes the accessible name. */
export function CopyButton({ text, label = "Copy", of = "" }: { text: string | (() => string); label?: string; of?: string }) {
  const [message, setMessage] = useState("");
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const words = (await copied(typeof text === "string" ? text : text())) ? "Copied" : "The browser blocked copying";
    setMessage(words);
    announce(words);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setMessage(""), MESSAGE_TIME);
  };
  return (
    <button type="button" class="plain small" aria-label={of && `${label} ${of}`} onClick={() => void copy()}>
      {message || label}
    </button>
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedFromField(text);
  }
}

/** The older method: browsers block the clipboard API on pages that are served without TLS. */
function copiedFromField(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/** A block of code or other preformatted text. */
export function Code({ text, language = "" }: { text: string; language?: string }) {
  return (
    <figure class="code">
      <figcaption class="code-top">
        <span class="grow">{language}</span>
        <CopyButton text={text} of="code" />
      </figcaption>
      <pre tabIndex={0}>
        <code>{highlighted(text, language).map(({ text: part, type }) => (type ? <span class={`hl-${type}`}>{part}</span> : part))}</code>
      </pre>
    </figure>
  );
}
