// Keyboard focus: where it goes when the focused element is removed.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/** Returns the focus to the opener when something closes. */
export function useFocusBack(open: boolean, opener: RefObject<HTMLElement | null>): void {
  const was = useRef(open);
  useEffect(() => {
    if (was.current && !open) opener.current?.focus();
    was.current = open;
  }, [open]);
}

/** As a `ref`: focuses the element when it is mounted. */
export function takesFocus(element: HTMLElement | null): void {
  element?.focus();
}

/** Focuses a field and selects its text. Not every browser does both at once. */
export function selectAll(field: HTMLInputElement | null): void {
  field?.focus();
  field?.select();
}

/** Moves the focus to the nearest neighbour when the focused element is removed from this container. */
export function useFocusKept(place: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const within = place.current;
    if (!within) return;
    let had: HTMLElement | undefined;
    let neighbours: HTMLElement[] = [];
    const came = (event: FocusEvent) => {
      const all = [...within.querySelectorAll<HTMLElement>(FOCUSABLE)];
      had = event.target as HTMLElement;
      const at = all.indexOf(had);
      neighbours = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at)).reverse(), within];
    };
    const changed = () => {
      if (!had || had.isConnected || document.activeElement !== document.body) return;
      neighbours.find(canBeFocused)?.focus({ preventScroll: true });
    };
    const watched = new MutationObserver(changed);
    watched.observe(within, { childList: true, subtree: true });
    within.addEventListener("focusin", came);
    return () => {
      watched.disconnect();
      within.removeEventListener("focusin", came);
    };
  }, []);
}

function canBeFocused(element: HTMLElement): boolean {
  return element.isConnected && !element.matches(":disabled") && !element.closest("[inert]") && element.checkVisibility();
}

/** Whether no control has the focus, so that moving it disturbs no one. */
export function isFocusFree(): boolean {
  return document.activeElement === document.body || document.activeElement?.id === "main";
}
