// The footer of a run: a status line and the waterfall.
import type { ReadonlySignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { Elapsed } from "./elapsed";
import { ENDING_LABELS, budgetOf, plural, tokensOf, usageOf } from "./labels";
import { Waterfall } from "./waterfall";
import type { RunView } from "./view";

interface FootProps {
  view: RunView;
  now: ReadonlySignal<number>;
}

/** The waterfall of a single round without calls starts closed. */
export function Foot({ view, now }: FootProps) {
  const [chosen, setChosen] = useState<boolean>();
  const shown = chosen ?? (view.calls.size > 0 || view.rounds.length > 1);
  const toggle = (event: MouseEvent) => {
    event.preventDefault();
    setChosen(!shown);
  };
  return (
    <footer class="foot">
      <Ending view={view} />
      <details class="timing" open={shown}>
        <summary onClick={toggle}>
          <StatusLine view={view} now={now} />
        </summary>
        {shown && <Waterfall view={view} now={now} />}
      </details>
    </footer>
  );
}

function StatusLine({ view, now }: FootProps) {
  const round = view.rounds.at(-1);
  const tokens = tokensOf(usageOf(view));
  return (
    <>
      {round && <span class="budget">{budgetOf(round, view.maxRounds)}</span>}
      {view.calls.size > 0 && <span>{plural(view.calls.size, "call")}</span>}
      {view.startedAt > 0 && <Elapsed from={view.startedAt} to={view.endedAt} now={now} />}
      {tokens && <span>{tokens}</span>}
      {view.endedAt === undefined && round?.toolsOff && <span>{view.status}</span>}
    </>
  );
}

function isSilent(view: RunView): boolean {
  return view.reason === "answer" && !view.rounds.at(-1)?.items.some(({ kind }) => kind === "text" || kind === "media");
}

/** Why it ended. */
function Ending({ view }: { view: RunView }) {
  if (!view.reason) return null;
  return (
    <p class="ending" data-reason={view.reason}>
      {isSilent(view) ? "The model ended without an answer." : ENDING_LABELS[view.reason]}
      {view.error && <span class="ending-error"> {view.error}</span>}
    </p>
  );
}
