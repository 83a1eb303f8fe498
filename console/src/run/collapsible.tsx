import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface CollapsibleProps {
  label: string;
  /** One line of the content, shown while it is closed. */
  preview?: string;
  /** The state until the user opens or closes it. */
  open?: boolean;
  class?: string;
  /** Called only while it is open, so that hidden content is not rendered. */
  children: () => ComponentChildren;
}

/** A collapsible section. */
export function Collapsible({ label, preview, open = false, class: name = "", children }: CollapsibleProps) {
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
        {!shown && preview && <span class="folded-preview">{preview}</span>}
      </summary>
      {shown && children()}
    </details>
  );
}
