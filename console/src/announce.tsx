// Announcements for screen readers: starts and ends only, never the streamed text.
import { signal } from "@preact/signals";

const polite = signal("");
const urgent = signal("");

/** Announces a short sentence politely: a start, a running tool, an end. */
export function announce(sentence: string): void {
  // A screen reader repeats a sentence only if the text changes.
  polite.value = sentence === polite.value ? `${sentence}\u00a0` : sentence;
}

/** Announces a failure immediately and shows it. */
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
