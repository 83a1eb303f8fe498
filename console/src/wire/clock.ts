// The gateway's clock, estimated from its responses.
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** The precision of a `Date` header: whole seconds, and possibly cached for a second. */
const PRECISION = 2_000;
/** The range of the difference between the gateway's clock and ours, in milliseconds. */
let [least, most] = [-Infinity, Infinity];
let ahead = 0;

/** Narrows the difference of the clocks from a `Date` header and the times of its request and response. */
export function learnTime(date: string | null, asked: number, answered: number): void {
  const said = Date.parse(date ?? "");
  if (Number.isNaN(said)) return;
  const [low, high] = [said - answered, said + PRECISION - asked];
  [least, most] = [Math.max(least, low), Math.min(most, high)];
  // One of the clocks was set, so start over.
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

/** The current time, which ticks while an active component uses it. Read `.value` only to display it. */
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
