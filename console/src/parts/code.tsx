// Text that is shown as it is, with a button that copies it.
import { useEffect, useRef, useState } from "preact/hooks";
import "../styles/parts.css";

const SAID_FOR = 2_000;

/** Copies a text; one that is costly to make is given as a function. */
export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [said, setSaid] = useState("");
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    setSaid((await copied(typeof text === "string" ? text : text())) ? "Copied" : "Not allowed");
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setSaid(""), SAID_FOR);
  };
  return (
    <button type="button" class="plain small copy" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A block of code, or of any text that keeps its spaces. */
export function Code({ text, language }: { text: string; language?: string }) {
  return (
    <figure class="code">
      <figcaption class="code-top">
        <span>{language}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
