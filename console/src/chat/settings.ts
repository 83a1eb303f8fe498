// Settings for all chats, stored in this browser.
import { effect, signal } from "@preact/signals";
import { setStored, stored } from "../storage";

const NAME = "windlass.settings";

/** Numbers are stored as typed, so that an incomplete one is not lost. Empty means the model's default. */
export interface Settings {
  model: string;
  /** Tools that are turned off. New tools are on. */
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

effect(() => setStored("localStorage", NAME, JSON.stringify(settings.value)));

export function change(patch: Partial<Settings>): void {
  settings.value = { ...settings.value, ...patch };
}

/** Ignores stored values of the wrong type: another version may have written them. */
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
