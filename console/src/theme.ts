// Light or dark: as the system has it, until somebody chooses.
import { effect, signal } from "@preact/signals";
import { keep, stored } from "./stored";

export type Theme = "system" | "light" | "dark";
const NAME = "windlass.theme";

export const theme = signal<Theme>((stored("localStorage", NAME) as Theme | null) ?? "system");

effect(() => {
  keep("localStorage", NAME, theme.value);
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});
