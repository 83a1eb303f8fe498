// The color theme: the system's, until the user chooses one.
import { effect, signal } from "@preact/signals";
import { setStored, stored } from "./storage";

export type Theme = "system" | "light" | "dark";
const NAME = "windlass.theme";

export const theme = signal<Theme>((stored("localStorage", NAME) as Theme | null) ?? "system");

effect(() => {
  setStored("localStorage", NAME, theme.value);
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});
