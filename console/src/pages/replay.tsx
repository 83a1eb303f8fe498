export function ReplayPage() {
  return <section class="page"><h1>Replay</h1></section>;
}
