// The calls of a round. When all have finished, they fold into one line, which opens on click.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Image } from "../parts/value";
import { foldedCalls } from "./labels";
import { picturesOf } from "./payload";
import type { CallView } from "./view";

interface ToolFoldProps {
  calls: readonly CallView[];
  finished: boolean;
  /** Stays open when the calls have finished: on pages about a run, not about its answer. */
  unfolded: boolean;
  children: ComponentChildren;
}

/** The cards stay in the page while it is closed, so that a link to a card can open it. Images in results stay visible. */
export function ToolFold({ calls, finished, unfolded, children }: ToolFoldProps) {
  const place = useRef<HTMLDetailsElement>(null);
  const line = useRef<HTMLElement>(null);
  const [chosen, setChosen] = useState<boolean>();
  const open = chosen ?? (!finished || unfolded);
  useLayoutEffect(() => {
    if (!open && place.current?.contains(document.activeElement)) line.current?.focus();
  }, [open]);
  const clicked = ({ target }: MouseEvent) => {
    const summary = (target as Element).closest("summary");
    // A user who opens a part of a card wants to read it.
    if (summary && summary !== line.current) setChosen(true);
  };
  const { label, trouble, names } = foldedCalls(calls);
  return (
    <>
    <details
      class="toolfold"
      ref={place}
      open={open}
      data-finished={finished}
      onClick={clicked}
      onToggle={({ currentTarget: { open: shown } }) => shown !== open && setChosen(shown)}
    >
      <summary ref={line} hidden={!finished}>
        <span>{label}</span>
        {trouble && <span class="toolfold-trouble">{trouble}</span>}
        <span class="toolfold-names">{names}</span>
      </summary>
      {children}
    </details>
    {!open && calls.flatMap(picturesOf).map((picture) => <Image picture={picture} />)}
    </>
  );
}
