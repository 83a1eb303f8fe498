import type { ReadonlySignal } from "@preact/signals";
import { lasted } from "./words";

/** How long something takes or took; it ticks by itself while there is no end. */
export function Elapsed({ from, to, now }: { from: number; to?: number | undefined; now: ReadonlySignal<number> }) {
  return <span class="elapsed">{lasted((to ?? now.value) - from)}</span>;
}
