import type { ReadonlySignal } from "@preact/signals";
import { lasted } from "./labels";

/** A duration, which counts up while there is no end. */
export function Elapsed({ from, to, now }: { from: number; to?: number | undefined; now: ReadonlySignal<number> }) {
  return <span class="elapsed">{lasted((to ?? now.value) - from)}</span>;
}
