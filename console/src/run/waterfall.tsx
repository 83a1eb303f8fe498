// Model rounds and tool runs on one time axis, while they happen.
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, CSSProperties } from "preact";
import { useMemo, useState } from "preact/hooks";
import { rowsOf, tickWords, ticksOf, toldRow, type Bar, type Row } from "./axis";
import { Elapsed } from "./elapsed";
import { useLatest } from "./latest";
import { durationOf, effectOf } from "./words";
import type { RunView } from "./view";

interface WaterfallProps {
  view: RunView;
  now: ReadonlySignal<number>;
}

/** More rows than these are shown when somebody asks for them. */
const ROWS = 60;

export function Waterfall({ view, now }: WaterfallProps) {
  const [pointed, setPointed] = useState<string>();
  const rows = useMemo(() => rowsOf(view), [view.rounds, view.calls, view.endedAt]);
  const { hidden, more } = useLatest(rows, ROWS, "rows");
  const row = rows.find(({ key }) => key === pointed);
  // Bars stand at seconds, not at places: as time goes on, the axis alone is drawn again.
  const drawn = useMemo(
    () => rows.slice(hidden).map((each) => <Line key={each.key} row={each} view={view} now={now} point={setPointed} />),
    [rows, hidden],
  );
  return (
    <div class="waterfall">
      {more}
      <Axis view={view} now={now}>
        <ol class="wf-rows" aria-label="Waterfall: rounds of the model and runs of tools" onMouseLeave={() => setPointed(undefined)}>
          {drawn}
        </ol>
      </Axis>
      <p class="wf-told" aria-hidden="true">
        {row && <Told row={row} view={view} now={now} />}
      </p>
    </div>
  );
}

/** The axis and its marks: the one thing that changes with the time. */
function Axis({ view, now, children }: WaterfallProps & { children: ComponentChildren }) {
  const span = Math.max(durationOf(view, now.value), 0.001);
  return (
    <div class="wf-axis" style={{ "--span": span } as CSSProperties}>
      <div class="wf-marks" aria-hidden="true">
        {ticksOf(span).map((tick) => (
          <span key={tick} style={{ "--from": tick } as CSSProperties}>
            {tickWords(tick)}
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
          {row.label}
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
        <Told row={row} view={view} now={now} />
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

/** A sentence that goes on while its bar does, in whole seconds: nobody hears tenths. */
function Told({ row, view, now }: WaterfallProps & { row: Row }) {
  const goesOn = row.bars.some((bar) => bar.to === undefined);
  return <>{toldRow(row, goesOn ? Math.floor(now.value - view.startedAt) : 0)}</>;
}

function showCard(callId: string): void {
  const card = document.querySelector<HTMLElement>(`.card[data-call="${CSS.escape(callId)}"]`);
  card?.scrollIntoView({ block: "nearest" });
  card?.focus({ preventScroll: true });
}
