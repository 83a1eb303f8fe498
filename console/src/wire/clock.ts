// The gateway's time, as far as the page can know it.
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

const NOTICED = 2;
let ahead = 0;

/** Learns from an answer's `Date` how far the two clocks are apart, where that is to be seen. */
export function learnTime(date: string | null): void {
  const seconds = date ? (Date.parse(date) - Date.now()) / 1000 : 0;
  ahead = Math.abs(seconds) > NOTICED ? seconds : 0;
}

/** Unix seconds. */
export function serverNow(): number {
  return Date.now() / 1000 + ahead;
}

const ticking = signal(serverNow());
let watchers = 0;
let timer = 0;

/** The time, which goes on while somebody who shows it is there: read `.value` only if it is shown. */
export function useNow(active: boolean): ReadonlySignal<number> {
  useEffect(() => {
    if (!active) return;
    const tick = () => (ticking.value = serverNow());
    if (watchers++ === 0) timer = window.setInterval(tick, 100);
    tick();
    return () => {
      if (--watchers === 0) clearInterval(timer);
    };
  }, [active]);
  return ticking;
}
