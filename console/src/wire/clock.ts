// The gateway's time, as far as the page can know it.
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** A `Date` is in whole seconds, and may have been written for the answer before. */
const VAGUE = 2_000;
/** Between these the gateway's clock is ahead of ours, in milliseconds, by all that it has answered. */
let [least, most] = [-Infinity, Infinity];
let ahead = 0;

/** Learns from an answer's `Date`, and from when it was asked for and came, how far the clocks are apart. */
export function learnTime(date: string | null, asked: number, answered: number): void {
  const said = Date.parse(date ?? "");
  if (Number.isNaN(said)) return;
  const [low, high] = [said - answered, said + VAGUE - asked];
  [least, most] = [Math.max(least, low), Math.min(most, high)];
  // One of the clocks was set: what was learnt before is no longer so.
  if (least > most) [least, most] = [low, high];
  ahead = least > 0 || most < 0 ? (least + most) / 2 : 0;
}

/** Unix seconds. */
export function serverNow(): number {
  return (Date.now() + ahead) / 1000;
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
