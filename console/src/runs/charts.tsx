// Small charts of the listed runs: cost in tokens, and latency.
import { counted, lasted } from "../run/labels";
import type { Run } from "../wire/types";
import { quantile } from "./totals";

/** The newest runs that fit in a chart. */
const MAX_BARS = 60;
const [WIDTH, HEIGHT, MAX_STEP] = [300, 48, 10];

export function Charts({ runs }: { runs: readonly Run[] }) {
  const ended = runs.filter(({ status, summary }) => status !== "running" && summary).slice(0, MAX_BARS).reverse();
  if (ended.length < 2) return null;
  const cost = (run: Run) => (run.summary?.input_tokens ?? 0) + (run.summary?.output_tokens ?? 0);
  const seconds = (run: Run) => run.summary?.seconds ?? 0;
  return (
    <div class="charts">
      <Chart name="Cost in tokens" runs={ended} value={cost} label={(tokens) => counted(Math.round(tokens))} />
      <Chart name="Latency" runs={ended} value={seconds} label={lasted} />
    </div>
  );
}

interface ChartProps {
  name: string;
  runs: readonly Run[];
  value: (run: Run) => number;
  label: (value: number) => string;
}

/** A bar for each run, the oldest first. */
function Chart({ name, runs, value, label }: ChartProps) {
  const values = runs.map(value);
  const most = Math.max(...values) || 1;
  // Few runs have narrow bars too, at the side of the newest.
  const step = Math.min(WIDTH / runs.length, MAX_STEP);
  const start = WIDTH - step * runs.length;
  const figures = `Median ${label(quantile(values, 0.5))}, 95th percentile ${label(quantile(values, 0.95))}, highest ${label(Math.max(...values))}`;
  return (
    <figure class="chart">
      <figcaption>{name}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${name} of the last ${runs.length} runs. ${figures}.`}>
        {runs.map((run, index) => {
          const height = Math.max(1, (HEIGHT * (values[index] ?? 0)) / most);
          return (
            <rect x={start + index * step + step * 0.1} y={HEIGHT - height} width={step * 0.8} height={height} class={run.status === "failed" ? "chart-failed" : undefined}>
              <title>{`${run.title || run.id}: ${label(values[index] ?? 0)}`}</title>
            </rect>
          );
        })}
      </svg>
      <p class="hint">{figures}</p>
    </figure>
  );
}
