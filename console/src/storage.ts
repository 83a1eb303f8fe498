// Values in the browser's storage. If the browser blocks storage, the page works without it.

type Store = "localStorage" | "sessionStorage";

export function stored(store: Store, name: string): string | null {
  try {
    return window[store].getItem(name);
  } catch {
    return null;
  }
}

export function setStored(store: Store, name: string, value: string): void {
  try {
    window[store].setItem(name, value);
  } catch {
    return;
  }
}
