// The key that this tab sends with every request.
import { signal } from "@preact/signals";
import { setStored, stored } from "../storage";

const NAME = "windlass.key";
let key = stored("sessionStorage", NAME) ?? "";

/** Whether the gateway has rejected the key, or requires one. */
export const locked = signal(false);

export function accessKey(): string {
  return key;
}

export function useAccessKey(given: string): void {
  key = given;
  setStored("sessionStorage", NAME, given);
}
