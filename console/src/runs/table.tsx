// The table of runs.
import { ago, moment } from "../chat/time";
import { counted, lasted } from "../run/labels";
import { useNow } from "../wire/clock";
import { STATUSES } from "./filters";
import type { Run, RunSummary } from "../wire/types";

const COLUMNS = ["Status", "Prompt", "Model", "Started", "Duration", "Rounds", "Tokens in / out", "Tools"];
const NUMBERS = ["Started", "Duration", "Rounds", "Tokens in / out"];

/** The roles are explicit, because the narrow layout turns cells into blocks, which lose their roles. */
export function RunsTable({ runs }: { runs: readonly Run[] }) {
  return (
    <table class="runs" role="table" aria-label="Runs">
      <thead role="rowgroup">
        <tr role="row">
          {COLUMNS.map((name) => (
            <th key={name} role="columnheader" scope="col" class={NUMBERS.includes(name) ? "runs-number" : ""}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {runs.map((run) => (
          <Row key={run.id} run={run} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ run }: { run: Run }) {
  const { summary } = run;
  return (
    <tr role="row" data-run={run.id}>
      <td role="cell">
        <Status run={run} />
      </td>
      <td role="cell" class="runs-title">
        <a href={`/runs/${run.id}`}>{run.title || run.id}</a>
        {run.chat_id && <>{" "}<a class="hint" href={`/chats/${run.chat_id}`}>Open chat</a></>}
        {run.error && <p class="runs-failed hint">{run.error.message}</p>}
      </td>
      <td role="cell">{run.model}</td>
      <td role="cell" class="runs-number" title={moment(run.created)}>{ago(run.created)}</td>
      <td role="cell" class="runs-number"><Took run={run} /></td>
      <td role="cell" class="runs-number" data-name="Rounds">{summary?.rounds ?? "–"}</td>
      <td role="cell" class="runs-number" data-name="Tokens in / out">
        {summary ? `${counted(summary.input_tokens)} / ${counted(summary.output_tokens)}` : "–"}
      </td>
      <td role="cell"><ToolsUsed tools={summary?.tools ?? {}} /></td>
    </tr>
  );
}

/** What the status says besides the status itself. A run that a person stopped has not failed. */
const REASONS: Partial<Record<NonNullable<Run["stop_reason"]>, [kind: string, words: string]>> = {
  stopped: ["stopped", "Stopped"],
  max_rounds: ["cut", "Round limit"],
  budget: ["cut", "Budget used up"],
  repetition: ["cut", "Repeated failure"],
  length: ["cut", "Too long"],
  content_filter: ["cut", "Filtered"],
  deadline: ["failed", "Time limit"],
};

export function Status({ run }: { run: Run }) {
  const [kind, words] = (run.stop_reason && REASONS[run.stop_reason]) ?? [run.status, STATUSES[run.status]];
  return (
    <span class="runs-status" data-status={kind}>
      {words}
    </span>
  );
}

function Took({ run }: { run: Run }) {
  const active = run.status === "running";
  const now = useNow(active);
  if (active) return <>{lasted(Math.max(0, now.value - run.created))}</>;
  return <>{run.summary ? lasted(run.summary.seconds) : "–"}</>;
}

function ToolsUsed({ tools }: { tools: RunSummary["tools"] }) {
  return (
    <ul class="runs-used">
      {Object.entries(tools).map(([name, use]) => (
        <li key={name}>
          {name}
          {use.calls > 1 && ` ×${use.calls}`}
          {use.failures > 0 && <span class="runs-failed"> {use.failures} failed</span>}
        </li>
      ))}
    </ul>
  );
}
