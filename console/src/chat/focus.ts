// Where the focus goes when what had it is gone.
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Back to what had opened it, when something closes. */
export function useFocusBack(open: boolean, opener: RefObject<HTMLElement | null>): void {
  const was = useRef(open);
  useEffect(() => {
    if (was.current && !open) opener.current?.focus();
    was.current = open;
  }, [open]);
}

/** To where one writes; but on a touch screen that would bring the keyboard over what is read. */
export function focusWriting(): void {
  if (matchMedia("(pointer: fine)").matches) document.querySelector<HTMLElement>(".composer textarea")?.focus();
}
