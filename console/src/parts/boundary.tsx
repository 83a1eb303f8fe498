import type { ComponentChildren } from "preact";
import { useErrorBoundary } from "preact/hooks";

/** An error boundary: shows `instead` if the children fail to render. */
export function ErrorBoundary({ instead, children }: { instead: ComponentChildren; children: ComponentChildren }) {
  const [broken] = useErrorBoundary((error) => console.error(error));
  return <>{broken === undefined ? children : instead}</>;
}
