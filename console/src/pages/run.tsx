// The page of one run, with its actions.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { alarm, announce } from "../announce";
import { takesFocus, useFocusBack } from "../focus";
import { download } from "../parts/download";
import { go } from "../router";
import { useAnnounced } from "../run/announced";
import { RunBody } from "../run/body";
import { follow } from "../run/follow";
import { Prompt } from "../run/prompt";
import { Status } from "../runs/table";
import { useTitle } from "../title";
import { api, refusal, request } from "../wire/api";
import { useNow } from "../wire/clock";
import type { Run } from "../wire/types";
import "../styles/runs.css";

export function RunPage({ runId }: { runId: string }) {
  const followed = useMemo(() => follow(runId), [runId]);
  useEffect(() => () => followed.close(), [followed]);
  const view = followed.view.value;
  const active = view.startedAt > 0 && view.endedAt === undefined;
  const now = useNow(active);
  const run = useRun(runId, active);
  useAnnounced(view);
  useTitle(run?.title || "Run");
  if (followed.connection.value === "refused") return <Missing why={followed.problem.value} />;
  return (
    <section class="page run-page">
      <header class="run-top">
        <div class="grow">
          <h1 class="row">Run {run && <Status run={run} />}</h1>
          <p class="hint row">
            <span>{run?.model ?? view.model}</span>
            {view.startedAt > 0 && <time dateTime={new Date(view.startedAt * 1000).toISOString()}>{new Date(view.startedAt * 1000).toLocaleString()}</time>}
            <code>{runId}</code>
          </p>
        </div>
        <Actions runId={runId} active={active} chatId={run?.chat_id ?? null} />
      </header>
      <Prompt messages={view.messages} />
      <RunBody view={view} followed={followed} runId={runId} live={active} now={now} timeline />
    </section>
  );
}

function Missing({ why }: { why: string }) {
  return (
    <section class="page">
      <h1>Run not found</h1>
      <p>{why}</p>
      <p>
        <a href="/runs">Show all runs.</a>
      </p>
    </section>
  );
}

function Actions({ runId, active, chatId }: { runId: string; active: boolean; chatId: string | null }) {
  const [sure, setSure] = useState(false);
  const [stopping, setStopping] = useState(false);
  const remover = useRef<HTMLButtonElement>(null);
  useFocusBack(sure, remover);
  const stop = async () => {
    if (stopping) return;
    setStopping(true);
    await tried(() => api.stop(runId));
    setStopping(false);
  };
  return (
    <div class="row">
      {chatId && <a href={`/chats/${chatId}`}>Open chat</a>}
      {active && (
        <button type="button" aria-disabled={stopping} onClick={() => void stop()}>
          {stopping ? "Stopping…" : "Stop"}
        </button>
      )}
      <button type="button" onClick={() => void tried(() => save(runId))}>
        Export
      </button>
      {!active && !sure && (
        <button type="button" class="danger" ref={remover} onClick={() => setSure(true)}>
          Delete
        </button>
      )}
      {!active && sure && (
        <>
          <button type="button" class="danger" onClick={() => void tried(() => remove(runId))}>
            Delete permanently
          </button>
          <button type="button" ref={takesFocus} onClick={() => setSure(false)}>
            Cancel
          </button>
        </>
      )}
    </div>
  );
}

async function tried(action: () => Promise<unknown>): Promise<void> {
  try {
    await action();
  } catch (error) {
    alarm(refusal(error));
  }
}

/** Loads the file with a request, because a link cannot send the key. */
async function save(runId: string): Promise<void> {
  download(`${runId}.json`, await (await request(`/v1/runs/${encodeURIComponent(runId)}/export`)).blob());
}

async function remove(runId: string): Promise<void> {
  await api.deleteRun(runId);
  announce("Run deleted.");
  go("/runs");
}

/** The run's record. Loaded again when the run ends. */
function useRun(runId: string, active: boolean): Run | undefined {
  const [run, setRun] = useState<Run>();
  useEffect(() => {
    api.run(runId).then(setRun, () => undefined);
  }, [runId, active]);
  return run;
}
