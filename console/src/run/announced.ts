import { useEffect, useRef } from "preact/hooks";
import { announce } from "../announce";
import { announcements } from "./announcements";
import type { RunView } from "./view";

/** Announces the starts and ends of an active run. */
export function useAnnounced(view: RunView): void {
  const before = useRef<RunView>(undefined);
  useEffect(() => {
    const said = announcements(before.current, view);
    before.current = view;
    if (said.length) announce(said.join(" "));
  }, [view]);
}
