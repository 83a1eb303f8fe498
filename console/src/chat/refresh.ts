// Looking again, while somebody looks.
import { useEffect, useRef } from "preact/hooks";

/**
 * Does the work every so often while the page is seen, and when it comes to be seen again.
 * A slow gateway is asked no faster than it answers.
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
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [milliseconds]);
}
