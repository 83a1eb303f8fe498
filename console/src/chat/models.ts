// The gateway's models and the selected one.
import { computed, signal } from "@preact/signals";
import { api, refusal } from "../wire/api";
import { wholeSeconds } from "../run/labels";
import type { Model } from "../wire/types";
import { settings } from "./settings";

export const models = signal<readonly Model[] | null>(null);
export const noModels = signal("");

/** The selected model, or the first one if the gateway no longer serves it. */
export const model = computed(() => {
  const served = models.value ?? [];
  return served.find(({ id }) => id === settings.value.model) ?? served[0];
});

/** The model that a run names: by the gateway's name for it, or by its target. */
export function servedAs(name: string): Model | undefined {
  return models.value?.find(({ id, windlass }) => id === name || windlass.target === name);
}

/** Whether a model is still being prepared, so that `ready_in` changes. */
export const preparing = computed(() => (models.value ?? []).some(({ windlass }) => windlass.status !== "ready"));

const PREPARATIONS = { ready: "", loading: "The model is loading", reading: "The model is reading its instructions and tools" } as const;

/** What a model does before it can answer, and about how long that takes; "" if it is ready. */
export function preparationOf(served: Model | undefined): string {
  if (!served || served.windlass.status === "ready") return "";
  const { status, ready_in: seconds } = served.windlass;
  return PREPARATIONS[status] + (seconds ? `, about ${wholeSeconds(seconds)} left` : "");
}

/** Whether a run's status says that its model was not ready. */
export function isPreparation(status: string): boolean {
  return Object.values(PREPARATIONS).some((text) => text && status.startsWith(text));
}

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
