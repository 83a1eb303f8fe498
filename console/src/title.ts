// The title of the browser tab, with a badge while calls wait for approval.
import { effect, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

const name = signal("");
/** How many calls on this page wait for approval. */
const waiting = signal(0);

effect(() => {
  const badge = waiting.value ? `(${waiting.value}) Approval needed · ` : "";
  document.title = badge + (name.value ? `${name.value} · Windlass` : "Windlass");
});

export function useTitle(title: string): void {
  useEffect(() => {
    name.value = title;
  }, [title]);
}

/** Counts this component among the calls that wait for approval, if it is `counted` when it is mounted. */
export function useBadge(counted: boolean): void {
  useEffect(() => {
    if (!counted) return;
    waiting.value++;
    return () => {
      waiting.value--;
    };
  }, []);
}
