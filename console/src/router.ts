// Where the page is: its address is the state, so that every link is stable.
import { signal } from "@preact/signals";

export const path = signal(location.pathname);
export const query = signal(location.search);

window.addEventListener("popstate", arrived);

function arrived(): void {
  path.value = location.pathname;
  query.value = location.search;
}

/** Goes to another page of the console. */
export function go(to: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  arrived();
}

/** A click on one of our own links stays in the page; with a modifier it is the browser's. */
export function followLink(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest("a");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
