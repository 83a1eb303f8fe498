import { useEffect } from "preact/hooks";

/** What the tab is called while a page is there. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Windlass` : "Windlass";
  }, [title]);
}
