// Loading data from the gateway.
import { useEffect, useState } from "preact/hooks";
import { useRefresh } from "../chat/refresh";
import { ApiError, refusal } from "../wire/api";

export interface Loaded<T> {
  value?: T;
  problem: string;
  /** Loads again. The old value stays until the new one arrives. */
  again: () => void;
}

const RETRY_INTERVAL = 4_000;

/** Loads a value by name, again when the name changes, and until the gateway can be reached. */
export function useLoaded<T>(name: string, load: () => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ name: string; value?: T; problem: string; lost?: boolean }>({ name, problem: "" });
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    let wanted = true;
    load().then(
      (value) => wanted && setState({ name, value, problem: "" }),
      (error: unknown) => wanted && setState({ name, problem: refusal(error), lost: !(error instanceof ApiError) }),
    );
    return () => {
      wanted = false;
    };
  }, [name, asked]);
  useRefresh(async () => state.lost && setAsked(asked + 1), RETRY_INTERVAL);
  const known = state.name === name ? state : { problem: "" };
  return { ...known, again: () => setAsked(asked + 1) };
}
