// A list that stays scrolled to its end while it grows, unless the user scrolls up.
import { useSignal, type ReadonlySignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const NEAR = 48;

interface Scrolled {
  list: RefObject<HTMLDivElement | null>;
  atEnd: ReadonlySignal<boolean>;
  toEnd: () => void;
}

/** `sticks` is false while there is nothing to follow, so that the list shows its beginning. */
export function useStickyEnd(sticks: boolean): Scrolled {
  const list = useRef<HTMLDivElement>(null);
  const atEnd = useSignal(true);
  const latest = useRef(sticks);
  latest.current = sticks;
  const toEnd = () => {
    atEnd.value = true;
    list.current?.scrollTo({ top: list.current.scrollHeight, behavior: "instant" });
  };
  useEffect(() => {
    const box = list.current;
    const inside = box?.firstElementChild;
    if (!box || !inside) return;
    let before = box.scrollTop;
    // Growth does not change the scroll position, so a smaller one means that the user scrolled up.
    const scrolled = () => {
      if (!latest.current) return;
      const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      if (near) atEnd.value = true;
      else if (box.scrollTop < before) atEnd.value = false;
      before = box.scrollTop;
    };
    const grown = new ResizeObserver(() => latest.current && atEnd.value && toEnd());
    grown.observe(inside);
    grown.observe(box);
    box.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      grown.disconnect();
      box.removeEventListener("scroll", scrolled);
    };
  }, []);
  return { list, atEnd, toEnd };
}

/** Whether an element has been near the visible area at least once. */
export function useNear(element: RefObject<Element | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (near || !element.current) return;
    const seen = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setNear(true), {
      root: element.current.closest(".talk"),
      rootMargin: "600px",
    });
    seen.observe(element.current);
    return () => seen.disconnect();
  }, [near]);
  return near;
}
