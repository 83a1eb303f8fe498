// The filters of the runs page, stored in its address. Pure.

export const STATUSES = { running: "Running", ended: "Done", failed: "Failed" } as const;
const NAMES = ["q", "status", "model", "tool", "from", "to"] as const;
const DAY_SECONDS = 24 * 60 * 60;

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
  const { q, from, to, ...others } = filters;
  const query = wanted({ ...others, q: "", from: "", to: "" });
  if (q) query.set("text", q);
  // Days are those of the user's clock, and the last day is included.
  if (dayStart(from)) query.set("since", String(dayStart(from)));
  if (dayStart(to)) query.set("until", String(dayStart(to) + DAY_SECONDS));
  query.set("summary", "true");
  query.set("limit", String(limit));
  if (before) query.set("before", before);
  return query;
}

/** The first second of a day such as "2026-11-17"; 0 if it is none. */
function dayStart(day: string): number {
  return Math.floor(Date.parse(`${day}T00:00:00`) / 1000) || 0;
}

function wanted(filters: Filters): URLSearchParams {
  return new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ""));
}
