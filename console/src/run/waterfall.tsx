// The waterfall: model rounds and tool runs on one time axis, updated live.
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, CSSProperties } from "preact";
import { useMemo, useState } from "preact/hooks";
import { rowsOf, tickLabel, ticksOf, rowText, type Bar, type Row } from "./axis";
import { Elapsed } from "./elapsed";
import { useLatest } from "./latest";
import { durationOf, effectOf } from "./labels";
import type { RunView } from "./view";

interface WaterfallProps {
  view: RunView;
  now: ReadonlySignal<number>;
}

/** Earlier rows are hidden behind a button. */
const MAX_ROWS = 60;

export function Waterfall({ view, now }: WaterfallProps) {
  const [pointed, setPointed] = useState<string>();
  const rows = useMemo(() => rowsOf(view), [view.rounds, view.calls, view.endedAt]);
  const { hidden, more } = useLatest(rows, MAX_ROWS, "rows");
  const row = rows.find(({ key }) => key === pointed);
  // Bars are positioned in seconds, so that only the axis renders again as time passes.
  const drawn = useMemo(
    () => rows.slice(hidden).map((each) => <Line key={each.key} row={each} view={view} now={now} point={setPointed} />),
    [rows, hidden],
  );
  return (
    <div class="waterfall">
      {more}
      <Axis view={view} now={now}>
        <ol class="wf-rows" aria-label="Waterfall: model rounds and tool runs" onMouseLeave={() => setPointed(undefined)}>
          {drawn}
        </ol>
      </Axis>
      <p class="wf-told" aria-hidden="true">
        {row && <RowText row={row} view={view} now={now} />}
      </p>
    </div>
  );
}

/** The axis and its marks: the only part that changes with time. */
function Axis({ view, now, children }: WaterfallProps & { children: ComponentChildren }) {
  const span = Math.max(durationOf(view, now.value), 0.001);
  return (
    <div class="wf-axis" style={{ "--span": span } as CSSProperties}>
      <div class="wf-marks" aria-hidden="true">
        {ticksOf(span).map((tick) => (
          <span key={tick} style={{ "--from": tick } as CSSProperties}>
            {tickLabel(tick)}
          </span>
        ))}
        {view.resumedAt.map((time) => (
          <span class="wf-restart" style={{ "--from": time - view.startedAt } as CSSProperties} />
        ))}
      </div>
      {children}
    </div>
  );
}

interface LineProps extends WaterfallProps {
  row: Row;
  point: (key: string) => void;
}

function Line({ row, view, now, point }: LineProps) {
  const call = row.call;
  const pointing = () => point(row.key);
  return (
    <li
      class="wf-row"
      data-kind={call ? "call" : "round"}
      data-state={call?.state}
      data-effect={call && effectOf(call)}
      onMouseEnter={pointing}
      onFocusCapture={pointing}
    >
      {call ? (
        <button type="button" class="wf-label" onClick={() => showCard(call.id)}>
          {row.label} <span>{row.given}</span>
        </button>
      ) : (
        <span class="wf-label">{row.label}</span>
      )}
      <span class="wf-track" aria-hidden="true">
        {row.bars.map((bar) => (
          <span class="bar" data-kind={bar.kind} data-live={bar.to === undefined} style={placed(bar)} />
        ))}
      </span>
      <span class="wf-figure" aria-hidden="true">
        <Took bars={row.bars} view={view} now={now} />
      </span>
      {row.note && (
        <span class="wf-note" aria-hidden="true">
          {row.note}
        </span>
      )}
      <span class="unseen">
        <RowText row={row} view={view} now={now} />
      </span>
    </li>
  );
}

function placed({ from, to }: Bar): CSSProperties {
  return { "--from": from, "--to": to ?? "var(--span)" } as CSSProperties;
}

function Took({ bars, view, now }: WaterfallProps & { bars: Bar[] }) {
  const first = bars[0];
  const last = bars.at(-1);
  if (!first || !last) return null;
  const to = last.to === undefined ? undefined : view.startedAt + last.to;
  return <Elapsed from={view.startedAt + first.from} to={to} now={now} />;
}

/** The row's sentence, updated in whole seconds while its bar is active. */
function RowText({ row, view, now }: WaterfallProps & { row: Row }) {
  const active = row.bars.some((bar) => bar.to === undefined);
  return <>{rowText(row, active ? Math.floor(now.value - view.startedAt) : 0)}</>;
}

function showCard(callId: string): void {
  const card = document.querySelector<HTMLElement>(`.card[data-call="${CSS.escape(callId)}"]`);
  const fold = card?.closest("details");
  if (fold) fold.open = true;
  card?.scrollIntoView({ block: "nearest" });
  card?.focus({ preventScroll: true });
}
