// The gateway's models and the selected one.
import { computed, signal } from "@preact/signals";
import { api, refusal } from "../wire/api";
import type { Model } from "../wire/types";
import { settings } from "./settings";

export const models = signal<readonly Model[] | null>(null);
export const noModels = signal("");

/** The selected model, or the first one if the gateway no longer serves it. */
export const model = computed(() => {
  const served = models.value ?? [];
  return served.find(({ id }) => id === settings.value.model) ?? served[0];
});

/** The tools of the selected model. */
export const tools = computed(() => model.value?.windlass.tools ?? []);

export const chosenTools = computed(() => tools.value.filter((name) => !settings.value.without.includes(name)));

/** Throws what `api.models` throws. */
export async function fetchModels(): Promise<void> {
  models.value = await api.models();
  noModels.value = models.value.length ? "" : "This gateway has no models. Add one to its configuration.";
}

export async function loadModels(): Promise<void> {
  try {
    await fetchModels();
  } catch (error) {
    noModels.value = refusal(error);
  }
}
