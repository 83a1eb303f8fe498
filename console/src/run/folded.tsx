import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { jsonOf } from "../parts/pieces";

interface FoldedProps {
  label: string;
  /** One line of what is inside, seen while it is closed. */
  preview?: string;
  /** As long as nobody has opened or closed it. */
  open?: boolean;
  class?: string;
  /** Called when it is open alone: what nobody looks at is not made. */
  children: () => ComponentChildren;
}

/** Something that can be opened. */
export function Folded({ label, preview, open = false, class: name = "", children }: FoldedProps) {
  const [chosen, setChosen] = useState<boolean>();
  const shown = chosen ?? open;
  const toggle = (event: MouseEvent) => {
    event.preventDefault();
    setChosen(!shown);
  };
  return (
    <details class={`folded ${name}`} open={shown}>
      <summary onClick={toggle}>
        <span class="folded-label">{label}</span>
        {!shown && preview && <code class="folded-preview">{preview}</code>}
      </summary>
      {shown && children()}
    </details>
  );
}

const LINE = 160;

/** The beginning of a value on one line. */
export function oneLine(value: unknown): string {
  const text = typeof value === "string" ? value : jsonOf(value);
  return text.slice(0, LINE).replace(/\s+/g, " ");
}
