// Periodic refresh while the page is visible.
import { useEffect, useRef } from "preact/hooks";

/**
 * Calls `work` at an interval while the page is visible, when it becomes visible again, and when the network is back.
 * The next call waits until the previous one has finished.
 */
export function useRefresh(work: () => Promise<unknown>, milliseconds: number): void {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    let looking = false;
    const look = async () => {
      if (document.hidden || looking) return;
      looking = true;
      await latest.current();
      looking = false;
    };
    const timer = setInterval(look, milliseconds);
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", look);
    };
  }, [milliseconds]);
}
