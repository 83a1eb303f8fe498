// The parameters of a request, read from text fields. Pure.
import type { Settings } from "./settings";

export type Parameter = "temperature" | "top_p" | "max_tokens" | "seed";

/** The label and the range of each parameter. */
export const PARAMETERS: Record<Parameter, { label: string; least: number; most: number; whole: boolean }> = {
  temperature: { label: "Temperature", least: 0, most: 2, whole: false },
  top_p: { label: "Top p", least: 0, most: 1, whole: false },
  max_tokens: { label: "Max tokens", least: 1, most: 10_000_000, whole: true },
  seed: { label: "Seed", least: 0, most: 2 ** 31 - 1, whole: true },
};

export const NAMES = Object.keys(PARAMETERS) as Parameter[];

/** Undefined if the field is empty: the model's default. */
export function numberOf(settings: Settings, name: Parameter): number | undefined {
  const typed = settings[name].trim();
  return typed ? Number(typed) : undefined;
}

/** Why a parameter is invalid, or "". */
export function wrongWith(settings: Settings, name: Parameter): string {
  const value = numberOf(settings, name);
  const { label, least, most, whole } = PARAMETERS[name];
  if (value === undefined) return "";
  if (whole && !Number.isInteger(value)) return `${label} must be a whole number.`;
  if (!(value >= least && value <= most)) return `${label} must be a number between ${least} and ${most}.`;
  return "";
}

export function firstWrong(settings: Settings): string {
  return NAMES.map((name) => wrongWith(settings, name)).find(Boolean) ?? "";
}
