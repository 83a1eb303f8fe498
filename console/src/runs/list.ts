// The list of runs, loaded in pages.
import { signal } from "@preact/signals";
import { api, refusal } from "../wire/api";
import type { Run } from "../wire/types";
import { listQuery, type Filters } from "./filters";
import { merged } from "./totals";

const PAGE_SIZE = 50;

/** Responses for outdated filters are dropped. */
export class RunList {
  readonly runs = signal<readonly Run[] | null>(null);
  readonly problem = signal("");
  readonly more = signal(false);
  private filters: Filters | undefined;

  /** Shows the runs that match the filters, newest first. */
  async show(filters: Filters): Promise<void> {
    this.filters = filters;
    await this.ask(filters, undefined, (page) => {
      this.more.value = page.length === PAGE_SIZE;
      return page;
    });
  }

  /** Loads new runs. */
  async refresh(): Promise<void> {
    if (!this.filters) return;
    await this.ask(this.filters, undefined, (page) => (page.length < PAGE_SIZE ? page : merged(page, this.runs.value ?? [])));
  }

  async older(): Promise<void> {
    const known = this.runs.value ?? [];
    if (!this.filters || !known.length) return;
    await this.ask(this.filters, known.at(-1)?.id, (page) => {
      this.more.value = page.length === PAGE_SIZE;
      return [...known, ...page];
    });
  }

  private async ask(filters: Filters, before: string | undefined, shown: (page: Run[]) => Run[]): Promise<void> {
    try {
      const page = await api.runs(listQuery(filters, PAGE_SIZE, before));
      if (filters !== this.filters) return;
      this.runs.value = shown(page);
      this.problem.value = "";
    } catch (error) {
      if (filters !== this.filters) return;
      this.problem.value = refusal(error);
    }
  }
}
