// What a screen reader is told: boundaries alone, never the text as it streams.
import { signal } from "@preact/signals";

const polite = signal("");
const urgent = signal("");

/** Says a short sentence when the listener is free: a start, a tool that runs, an end. */
export function announce(sentence: string): void {
  polite.value = sentence;
}

/** Says at once that something went wrong, and shows it. */
export function alarm(sentence: string): void {
  urgent.value = sentence;
}

/** The page's two live regions. */
export function Announcer() {
  return (
    <>
      <p class="unseen" aria-live="polite" data-announcer>
        {polite}
      </p>
      <div role="alert" class="alarm" hidden={!urgent.value}>
        {urgent}
        <button type="button" class="plain" aria-label="Dismiss" onClick={() => alarm("")}>
          ×
        </button>
      </div>
    </>
  );
}
