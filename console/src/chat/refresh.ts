// Looking again, while somebody looks.
import { useEffect, useRef } from "preact/hooks";

/** Does the work every so often while the page is seen, and when it comes to be seen again. */
export function useRefresh(work: () => void, milliseconds: number): void {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => {
    const look = () => {
      if (!document.hidden) latest.current();
    };
    const timer = setInterval(look, milliseconds);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [milliseconds]);
}
