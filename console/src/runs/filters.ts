// The filters of the runs page, stored in its address. Pure.

export const STATUSES = ["running", "ended", "failed"] as const;
const NAMES = ["q", "status", "model", "tool"] as const;

export type Filters = Record<(typeof NAMES)[number], string>;

export function filtersIn(query: string): Filters {
  const given = new URLSearchParams(query);
  return Object.fromEntries(NAMES.map((name) => [name, given.get(name) ?? ""])) as Filters;
}

/** The address of the runs page with these filters. */
export function addressOf(filters: Filters): string {
  const query = wanted(filters).toString();
  return query ? `/runs?${query}` : "/runs";
}

/** The query of the request to the gateway. */
export function listQuery(filters: Filters, limit: number, before?: string): URLSearchParams {
  const query = wanted(filters);
  query.set("summary", "true");
  query.set("limit", String(limit));
  if (before) query.set("before", before);
  return query;
}

function wanted(filters: Filters): URLSearchParams {
  return new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ""));
}
