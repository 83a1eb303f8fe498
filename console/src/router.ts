// The router: the address is the state, so that every link is stable.
import { signal } from "@preact/signals";

export const path = signal(location.pathname);
export const query = signal(location.search);

window.addEventListener("popstate", arrived);

function arrived(): void {
  path.value = location.pathname;
  query.value = location.search;
}

/** Navigates to another page of the console and scrolls to its top. */
export function go(to: string, how: "push" | "replace" = "push"): void {
  const there = to === location.pathname + location.search;
  if (how === "replace" || there) history.replaceState(null, "", to);
  else {
    history.pushState(null, "", to);
    document.getElementById("main")?.scrollTo(0, 0);
  }
  arrived();
}

/** Handles clicks on the console's own links without a reload. The browser handles clicks with a modifier key. */
export function followLink(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  // Links in a chart are SVG, which have no properties for the parts of their address.
  const to = link instanceof HTMLAnchorElement ? link : new URL(link.getAttribute("href") ?? "", location.href);
  if (to.origin !== location.origin || to.hash || link.hasAttribute("target") || link.hasAttribute("download")) return;
  event.preventDefault();
  go(to.pathname + to.search);
}
