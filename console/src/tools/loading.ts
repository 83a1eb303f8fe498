// Loading data from the gateway.
import { useEffect, useState } from "preact/hooks";
import { refusal } from "../wire/api";

export interface Loaded<T> {
  value?: T;
  problem: string;
  /** Loads again. The old value stays until the new one arrives. */
  again: () => void;
}

/** Loads a value by name, and again when the name changes. */
export function useLoaded<T>(name: string, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ name: string; value?: T; problem: string }>({ name, problem: "" });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let wanted = true;
    load().then(
      (value) => wanted && setState({ name, value, problem: "" }),
      (error: unknown) => wanted && setState({ name, problem: refusal(error) }),
    );
    return () => {
      wanted = false;
    };
  }, [name, asked]);
  const known = state.name === name ? state : { problem: "" };
  return { ...known, again: () => setAsked(asked + 1) };
}
