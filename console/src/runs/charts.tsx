// Small charts of the listed runs: cost in tokens, and latency.
import { clockOf, moment } from "../chat/time";
import { counted, lasted } from "../run/labels";
import type { Run } from "../wire/types";
import { quantile } from "./totals";

/** The newest runs that fit in a chart. */
const MAX_BARS = 60;
const [WIDTH, HEIGHT, MAX_WIDTH] = [300, 48, 12];

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

function isNewDay(run: Run, before = run): boolean {
  return new Date(run.created * 1000).getDate() !== new Date(before.created * 1000).getDate();
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
  // Few bars are narrow too, and spread over the width.
  const step = WIDTH / runs.length;
  const width = Math.min(step * 0.8, MAX_WIDTH);
  const figures = `Median ${label(quantile(values, 0.5))}, 95th percentile ${label(quantile(values, 0.95))}, highest ${label(Math.max(...values))}`;
  return (
    <figure class="chart">
      <figcaption>{name}</figcaption>
      <p class="hint chart-most" aria-hidden="true">{label(most)}</p>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {runs.map((run, index) => {
          const height = Math.max(1, (HEIGHT * (values[index] ?? 0)) / most);
          const x = index * step;
          // A column is easier to point at than a low bar. By keyboard, the same runs are in the table.
          return (
            <a href={`/runs/${run.id}`} tabindex={-1}>
              <title>{`${run.title || run.id}: ${label(values[index] ?? 0)}, ${moment(run.created)}`}</title>
              <rect class="chart-column" x={x} width={step} height={HEIGHT} />
              <rect x={x + (step - width) / 2} y={HEIGHT - height} width={width} height={height} class={run.status === "failed" ? "chart-failed" : ""} />
              {isNewDay(run, runs[index - 1]) && <path class="chart-day" d={`M${x} 0V${HEIGHT}`} />}
            </a>
          );
        })}
      </svg>
      <p class="hint chart-times" aria-hidden="true">
        <span>{clockOf(runs[0]?.created ?? 0)}</span>
        <span>{runs.length} runs</span>
        <span>{clockOf(runs.at(-1)?.created ?? 0)}</span>
      </p>
      <p class="hint">{figures}</p>
    </figure>
  );
}
