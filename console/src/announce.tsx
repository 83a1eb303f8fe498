// What a screen reader is told: boundaries alone, never the text as it streams.
import { signal } from "@preact/signals";

const polite = signal("");
const urgent = signal("");

/** Says a short sentence when the listener is free: a start, a tool that runs, an end. */
export function announce(sentence: string): void {
  // What is said twice is heard twice only if it is another text.
  polite.value = sentence === polite.value ? `${sentence}\u00a0` : sentence;
}

/** Says at once that something went wrong, and shows it. */
export function alarm(sentence: string): void {
  urgent.value = sentence;
}

/** The page's two live regions. */
export function Announcer() {
  const dismiss = () => {
    alarm("");
    document.getElementById("main")?.focus();
  };
  return (
    <>
      <p class="unseen" aria-live="polite" data-announcer>
        {polite}
      </p>
      <div role="alert" class="alarm" hidden={!urgent.value}>
        {urgent}
        <button type="button" class="plain" aria-label="Dismiss" onClick={dismiss}>
          ×
        </button>
      </div>
    </>
  );
}
