import { useState } from "preact/hooks";

/** The last items of a long list, and a button that brings the others: a page is no place for thousands. */
export function useLatest<T>(items: readonly T[], most: number, noun: string) {
  const [all, setAll] = useState(false);
  const hidden = all ? 0 : Math.max(0, items.length - most);
  const more = hidden > 0 && (
    <button type="button" class="plain small" onClick={() => setAll(true)}>
      Show the {hidden} {noun} before
    </button>
  );
  return { hidden, more };
}
