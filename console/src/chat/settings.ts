// How the person wants to be answered: kept in this browser, for every chat.
import { effect, signal } from "@preact/signals";

const NAME = "windlass.settings";

/** Numbers stay what was typed, so that a half-typed one is not lost; empty is the model's own. */
export interface Settings {
  model: string;
  /** Tools that are not offered; a tool that is new is. */
  without: readonly string[];
  system: string;
  temperature: string;
  top_p: string;
  max_tokens: string;
  seed: string;
}

export const NO_SETTINGS: Settings = {
  model: "",
  without: [],
  system: "",
  temperature: "",
  top_p: "",
  max_tokens: "",
  seed: "",
};

export const settings = signal<Settings>(kept());

effect(() => localStorage.setItem(NAME, JSON.stringify(settings.value)));

export function change(patch: Partial<Settings>): void {
  settings.value = { ...settings.value, ...patch };
}

function kept(): Settings {
  try {
    return { ...NO_SETTINGS, ...(JSON.parse(localStorage.getItem(NAME) ?? "{}") as Partial<Settings>) };
  } catch {
    return NO_SETTINGS;
  }
}
