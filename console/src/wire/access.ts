// The key that goes with every request of this tab, and whether the gateway wants another.
import { signal } from "@preact/signals";
import { keep, stored } from "../stored";

const NAME = "windlass.key";
let key = stored("sessionStorage", NAME) ?? "";

/** Whether the gateway has refused the key, or the lack of one. */
export const locked = signal(false);

export function accessKey(): string {
  return key;
}

export function useAccessKey(given: string): void {
  key = given;
  keep("sessionStorage", NAME, given);
}
