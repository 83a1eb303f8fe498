export function RunPage({ runId }: { runId: string }) {
  return <section class="page"><h1>Run</h1>{runId}</section>;
}
