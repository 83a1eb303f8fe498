// What the browser keeps for the page. One that keeps nothing, by its settings, is no reason to fail.

type Store = "localStorage" | "sessionStorage";

export function stored(store: Store, name: string): string | null {
  try {
    return window[store].getItem(name);
  } catch {
    return null;
  }
}

export function keep(store: Store, name: string, value: string): void {
  try {
    window[store].setItem(name, value);
  } catch {
    return;
  }
}
