// Text that is shown as it is, with a button that copies it.
import { useEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import "../styles/parts.css";

const SAID_FOR = 2_000;

/** Copies a text; one that is costly to make is given as a function. `of` says what it is, for those who do not see it. */
export function CopyButton({ text, label = "Copy", of = "" }: { text: string | (() => string); label?: string; of?: string }) {
  const [said, setSaid] = useState("");
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    const words = (await copied(typeof text === "string" ? text : text())) ? "Copied" : "The browser did not allow it";
    setSaid(words);
    announce(words);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setSaid(""), SAID_FOR);
  };
  return (
    <button type="button" class="plain small" aria-label={of && `${label} ${of}`} onClick={() => void copy()}>
      {said || label}
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

/** The older way, for a gateway that is reached without TLS: browsers keep the clipboard from such pages. */
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

/** A block of code, or of any text that keeps its spaces. */
export function Code({ text, language = "" }: { text: string; language?: string }) {
  return (
    <figure class="code">
      <figcaption class="code-top">
        <span class="grow">{language}</span>
        <CopyButton text={text} of="code" />
      </figcaption>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
