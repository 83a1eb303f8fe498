// The runs that the gateway knows, as far as they are shown.
import { signal } from "@preact/signals";
import { api, refusal } from "../wire/api";
import type { Run } from "../wire/types";
import { listQuery, type Filters } from "./filters";
import { merged } from "./totals";

const PAGE = 50;

/** Answers that come late, for filters that were changed since, are dropped. */
export class RunList {
  readonly runs = signal<readonly Run[] | null>(null);
  readonly problem = signal("");
  readonly more = signal(false);
  private filters: Filters | undefined;

  /** Shows the runs under these filters, the newest first. */
  async show(filters: Filters): Promise<void> {
    this.filters = filters;
    await this.ask(filters, undefined, (page) => {
      this.more.value = page.length === PAGE;
      return page;
    });
  }

  /** Looks for what is new. */
  async refresh(): Promise<void> {
    if (!this.filters) return;
    await this.ask(this.filters, undefined, (page) => (page.length < PAGE ? page : merged(page, this.runs.value ?? [])));
  }

  async older(): Promise<void> {
    const known = this.runs.value ?? [];
    if (!this.filters || !known.length) return;
    await this.ask(this.filters, known.at(-1)?.id, (page) => {
      this.more.value = page.length === PAGE;
      return [...known, ...page];
    });
  }

  private async ask(filters: Filters, before: string | undefined, shown: (page: Run[]) => Run[]): Promise<void> {
    try {
      const page = await api.runs(listQuery(filters, PAGE, before));
      if (filters !== this.filters) return;
      this.runs.value = shown(page);
      this.problem.value = "";
    } catch (error) {
      if (filters !== this.filters) return;
      this.problem.value = refusal(error);
    }
  }
}
