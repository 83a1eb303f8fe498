// The end of a run: why it ended if that matters, its figures, and the waterfall where the page shows it.
import type { ReadonlySignal } from "@preact/signals";
import { Elapsed } from "./elapsed";
import { ENDING_LABELS, budgetOf, plural, tokensOf, usageOf } from "./labels";
import { Waterfall } from "./waterfall";
import type { RunView } from "./view";

interface FootProps {
  view: RunView;
  now: ReadonlySignal<number>;
  timeline: boolean;
}

export function Foot({ view, now, timeline, canRetry }: FootProps & { canRetry: boolean }) {
  const round = view.rounds.at(-1);
  const active = view.endedAt === undefined;
  const budget = round && (active || view.reason !== "answer") ? budgetOf(round, view.maxRounds) : "";
  return (
    <>
      <Ending view={view} canRetry={canRetry} />
      {active && (budget || round?.toolsOff) && (
        <p class="budget">
          {budget}
          {round?.toolsOff && view.status && `. ${view.status}`}
        </p>
      )}
      {timeline && <Timeline view={view} now={now} />}
    </>
  );
}

/** The figures of a run and its waterfall. */
export function Timeline({ view, now }: Omit<FootProps, "timeline">) {
  return (
    <section class="timeline" aria-label="Timeline">
      <p class="hint row">
        <Figures view={view} now={now} />
      </p>
      <Waterfall view={view} now={now} />
    </section>
  );
}

/** Duration, rounds, calls and tokens. */
function Figures({ view, now }: Omit<FootProps, "timeline">) {
  const tokens = tokensOf(usageOf(view));
  return (
    <>
      {view.startedAt > 0 && <Elapsed from={view.startedAt} to={view.endedAt} now={now} />}
      <span>{plural(view.rounds.filter(({ superseded }) => !superseded).length, "round")}</span>
      {view.calls.size > 0 && <span>{plural(view.calls.size, "call")}</span>}
      {tokens && <span>{tokens}</span>}
    </>
  );
}

function isSilent(view: RunView): boolean {
  return view.reason === "answer" && !view.rounds.at(-1)?.items.some(({ kind }) => kind === "text" || kind === "media");
}

/** Why it ended, unless the model simply answered. */
function Ending({ view, canRetry }: { view: RunView; canRetry: boolean }) {
  const why = isSilent(view) ? "The model ended without an answer." : view.reason && ENDING_LABELS[view.reason];
  if (!why) return null;
  return (
    <div class="ending" data-reason={view.reason}>
      <p>{why}</p>
      {view.error && <p class="ending-error">{view.error}</p>}
      {view.reason === "error" && (
        <p class="hint">
          {canRetry && "To ask again, press Retry. "}For details, see the gateway's log, run id <code title={view.id}>{view.id}</code>
        </p>
      )}
    </div>
  );
}
