// The models that this gateway serves, and the one that is chosen.
import { computed, signal } from "@preact/signals";
import { api, refusal } from "../wire/api";
import type { Model } from "../wire/types";
import { settings } from "./settings";

export const models = signal<readonly Model[] | null>(null);
export const noModels = signal("");

/** The chosen one, or the first where that is not served any more. */
export const model = computed(() => {
  const served = models.value ?? [];
  return served.find(({ id }) => id === settings.value.model) ?? served[0];
});

/** The tools that go with the chosen model. */
export const tools = computed(() => model.value?.windlass.tools ?? []);

export const chosenTools = computed(() => tools.value.filter((name) => !settings.value.without.includes(name)));

export async function loadModels(): Promise<void> {
  try {
    models.value = await api.models();
    noModels.value = models.value.length ? "" : "This gateway serves no model: add one to its configuration.";
  } catch (error) {
    noModels.value = refusal(error);
  }
}
