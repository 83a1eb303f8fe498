export function ToolsPage({ name }: { name?: string }) {
  return <section class="page"><h1>Tools</h1>{name}</section>;
}
