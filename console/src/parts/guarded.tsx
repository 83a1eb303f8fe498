import type { ComponentChildren } from "preact";
import { useErrorBoundary } from "preact/hooks";

/** Shows something else in place of what cannot be shown: a mistake in a part leaves the rest of the page alone. */
export function Guarded({ instead, children }: { instead: ComponentChildren; children: ComponentChildren }) {
  const [broken] = useErrorBoundary((error) => console.error(error));
  return <>{broken === undefined ? children : instead}</>;
}
