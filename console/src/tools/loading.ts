// What a page asks the gateway for, once and again.
import { useEffect, useState } from "preact/hooks";
import { refusal } from "../wire/api";

export interface Loaded<T> {
  value?: T;
  problem: string;
  /** Asks again; what is there stays until the answer has come. */
  again: () => void;
}

/** Loads by name: another name is another question. */
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
