// The list of runs, with search by content, date, model, tool and status.
import { useEffect, useMemo } from "preact/hooks";
import { loadModels, models } from "../chat/models";
import { useRefresh } from "../chat/refresh";
import { go, query } from "../router";
import { counted, lasted } from "../run/labels";
import { STATUSES, addressOf, filtersIn, type Filters } from "../runs/filters";
import { Charts } from "../runs/charts";
import { RunList } from "../runs/list";
import { RunsTable } from "../runs/table";
import { totalsOf } from "../runs/totals";
import { useTitle } from "../title";
import type { Run } from "../wire/types";
import "../styles/runs.css";

const REFRESH_INTERVAL = 3_000;
const TYPING_DELAY = 200;

export function RunsPage() {
  const list = useMemo(() => new RunList(), []);
  const filters = filtersIn(query.value);
  useTitle("Runs");
  useEffect(() => {
    void loadModels();
  }, []);
  useEffect(() => {
    const typed = setTimeout(() => void list.show(filters), list.runs.value ? TYPING_DELAY : 0);
    return () => clearTimeout(typed);
  }, [query.value]);
  useRefresh(() => list.refresh(), REFRESH_INTERVAL);
  const runs = list.runs.value;
  return (
    <section class="page">
      <div class="row">
        <h1 class="grow">Runs</h1>
        <a href="/replay">Replay an exported run</a>
      </div>
      <FilterForm filters={filters} runs={runs ?? []} />
      {list.problem.value && <p role="alert" class="runs-failed">{list.problem}</p>}
      {runs && <Summary runs={runs} />}
      {runs?.length ? <RunsTable runs={runs} /> : !list.problem.value && <p class="hint">{emptyText(runs, filters)}</p>}
      {list.more.value && (
        <button type="button" class="runs-more" onClick={() => void list.older()}>
          Show older runs
        </button>
      )}
    </section>
  );
}

function emptyText(runs: readonly Run[] | null, filters: Filters): string {
  if (!runs) return "Loading…";
  return addressOf(filters) === "/runs" ? "No runs yet." : "No matching runs.";
}

function FilterForm({ filters, runs }: { filters: Filters; runs: readonly Run[] }) {
  const set = (patch: Partial<Filters>) => go(addressOf({ ...filters, ...patch }), "replace");
  const served = models.value ?? [];
  const tools = served.flatMap((model) => model.windlass.tools);
  const used = runs.flatMap((run) => Object.keys(run.summary?.tools ?? {}));
  return (
    <form class="row runs-filters" role="search" aria-label="Runs" onSubmit={(event) => event.preventDefault()}>
      <label class="grow">
        Search
        <input
          type="search"
          placeholder="Words in prompts, answers and results"
          value={filters.q}
          onInput={(event) => set({ q: event.currentTarget.value })}
        />
      </label>
      <Choice label="Status" value={filters.status} options={Object.keys(STATUSES)} names={STATUSES} onChange={(status) => set({ status })} />
      <Choice label="Model" value={filters.model} options={served.map(({ id }) => id)} onChange={(model) => set({ model })} />
      <Choice label="Tool" value={filters.tool} options={[...tools, ...used]} onChange={(tool) => set({ tool })} />
      <DateField label="From" value={filters.from} onChange={(from) => set({ from })} />
      <DateField label="To" value={filters.to} onChange={(to) => set({ to })} />
    </form>
  );
}

function DateField({ label, value, onChange }: Omit<ChoiceProps, "options" | "names">) {
  return (
    <label>
      {label}
      <input type="date" value={value} onInput={(event) => onChange(event.currentTarget.value)} />
    </label>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: readonly string[];
  /** What the options are called, if not by their own text. */
  names?: Record<string, string>;
  onChange: (value: string) => void;
}

/** The options always include the current value, even if it no longer exists. */
function Choice({ label, value, options, names = {}, onChange }: ChoiceProps) {
  const all = [...new Set(value ? [value, ...options] : options)].sort();
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">Any</option>
        {all.map((option) => (
          <option key={option} value={option}>{names[option] ?? option}</option>
        ))}
      </select>
    </label>
  );
}

function Summary({ runs }: { runs: readonly Run[] }) {
  const totals = totalsOf(runs);
  const figures: [string, string][] = [
    ["Runs shown", counted(totals.runs)],
    ["Running", counted(totals.running)],
    ["Failed", counted(totals.failed)],
    ["Stopped", counted(totals.stopped)],
    ["Tokens in", counted(totals.inputTokens)],
    ["Tokens out", counted(totals.outputTokens)],
  ];
  return (
    <>
      <dl class="runs-totals">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Charts runs={runs} />
      {totals.tools.length > 0 && <FailuresByTool tools={totals.tools} />}
    </>
  );
}

function FailuresByTool({ tools }: { tools: ReturnType<typeof totalsOf>["tools"] }) {
  const failures = tools.reduce((sum, [, use]) => sum + use.failures, 0);
  return (
    <details class="runs-tools">
      <summary>Failures by tool: {counted(failures)}</summary>
      <table aria-label="Failures by tool">
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col">Calls</th>
            <th scope="col">Failures</th>
            <th scope="col">Average time</th>
          </tr>
        </thead>
        <tbody>
          {tools.map(([name, use]) => (
            <tr key={name}>
              <td><a href={`/tools/${encodeURIComponent(name)}`}>{name}</a></td>
              <td>{counted(use.calls)}</td>
              <td class={use.failures ? "runs-failed" : ""}>{counted(use.failures)}</td>
              <td>{lasted(use.calls ? use.seconds / use.calls : 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
