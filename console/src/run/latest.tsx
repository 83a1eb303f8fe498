import { useState } from "preact/hooks";

/** Limits a long list to its last items, with a button that shows the others. */
export function useLatest<T>(items: readonly T[], max: number, noun: string) {
  const [all, setAll] = useState(false);
  const hidden = all ? 0 : Math.max(0, items.length - max);
  const more = hidden > 0 && (
    <button type="button" class="plain small" onClick={() => setAll(true)}>
      Show {hidden} earlier {noun}
    </button>
  );
  return { hidden, more };
}
