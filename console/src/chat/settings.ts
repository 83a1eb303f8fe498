// How the person wants to be answered: kept in this browser, for every chat.
import { effect, signal } from "@preact/signals";
import { keep, stored } from "../stored";

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

export const settings = signal<Settings>(settingsIn(stored("localStorage", NAME) ?? "{}"));

effect(() => keep("localStorage", NAME, JSON.stringify(settings.value)));

export function change(patch: Partial<Settings>): void {
  settings.value = { ...settings.value, ...patch };
}

/** What another version has kept may be of another kind: that is left out. */
export function settingsIn(text: string): Settings {
  try {
    const found = (JSON.parse(text) ?? {}) as Record<string, unknown>;
    const fitting = Object.entries(NO_SETTINGS).filter(([name, value]) => {
      return typeof found[name] === typeof value && Array.isArray(found[name]) === Array.isArray(value);
    });
    return { ...NO_SETTINGS, ...Object.fromEntries(fitting.map(([name]) => [name, found[name]])) };
  } catch {
    return NO_SETTINGS;
  }
}
