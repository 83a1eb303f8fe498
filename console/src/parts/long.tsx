import { useState } from "preact/hooks";

const SHOWN = 4_000;

/** What a person wrote; of what is very long, the beginning, until somebody wants the rest. */
export function Long({ text, class: name }: { text: string; class?: string }) {
  const [whole, setWhole] = useState(false);
  if (whole || text.length <= SHOWN) return <p class={name}>{text}</p>;
  return (
    <>
      <p class={name}>{text.slice(0, SHOWN)}…</p>
      <button type="button" class="plain small" onClick={() => setWhole(true)}>
        Show all
      </button>
    </>
  );
}
