import { useEffect } from "preact/hooks";

/** Sets the title of the browser tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Windlass` : "Windlass";
  }, [title]);
}
