import { useEffect, useRef } from "preact/hooks";
import { announce } from "../announce";
import { boundaries } from "./boundaries";
import type { RunView } from "./view";

/** Says the boundaries of a run that goes while the page is open. */
export function useAnnounced(view: RunView): void {
  const before = useRef<RunView>(undefined);
  useEffect(() => {
    const said = boundaries(before.current, view);
    before.current = view;
    if (said.length) announce(said.join(" "));
  }, [view]);
}
