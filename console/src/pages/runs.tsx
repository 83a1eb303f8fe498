export function RunsPage() {
  return <section class="page"><h1>Runs</h1></section>;
}
