import { useState } from "preact/hooks";

const MAX_SHOWN = 4_000;

/** Text by the user. A very long text is shortened, with a button that shows the rest. */
export function LongText({ text, class: name }: { text: string; class?: string }) {
  const [whole, setWhole] = useState(false);
  if (whole || text.length <= MAX_SHOWN) return <p class={name}>{text}</p>;
  return (
    <>
      <p class={name}>{text.slice(0, MAX_SHOWN)}…</p>
      <button type="button" class="plain small" onClick={() => setWhole(true)}>
        Show all
      </button>
    </>
  );
}
