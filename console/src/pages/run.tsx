// One run by itself, with what one can do with it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { alarm, announce } from "../announce";
import { takesFocus, useFocusBack } from "../focus";
import { download } from "../parts/download";
import { go } from "../router";
import { useAnnounced } from "../run/announced";
import { RunBody } from "../run/body";
import { follow } from "../run/follow";
import { Question } from "../run/question";
import { useTitle } from "../title";
import { api, refusal, request } from "../wire/api";
import { useNow } from "../wire/clock";
import type { Run } from "../wire/types";

export function RunPage({ runId }: { runId: string }) {
  const followed = useMemo(() => follow(runId), [runId]);
  useEffect(() => () => followed.close(), [followed]);
  const view = followed.view.value;
  const goes = view.startedAt > 0 && view.endedAt === undefined;
  const now = useNow(goes);
  const run = useRun(runId, goes);
  useAnnounced(view);
  useTitle(run?.title || "Run");
  if (followed.connection.value === "refused") return <Missing why={followed.problem.value} />;
  return (
    <section class="page run-page">
      <header class="run-top">
        <div class="grow">
          <h1>{run?.title || "Run"}</h1>
          <p class="hint row">
            <span>{run?.model ?? view.model}</span>
            {view.startedAt > 0 && <time dateTime={new Date(view.startedAt * 1000).toISOString()}>{new Date(view.startedAt * 1000).toLocaleString()}</time>}
            <code>{runId}</code>
          </p>
        </div>
        <Actions runId={runId} goes={goes} chatId={run?.chat_id ?? null} />
      </header>
      <Question messages={view.messages} />
      <RunBody view={view} followed={followed} runId={runId} live={goes} now={now} />
    </section>
  );
}

function Missing({ why }: { why: string }) {
  return (
    <section class="page">
      <h1>No such run</h1>
      <p>{why}</p>
      <p>
        <a href="/runs">See all runs.</a>
      </p>
    </section>
  );
}

function Actions({ runId, goes, chatId }: { runId: string; goes: boolean; chatId: string | null }) {
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
      {chatId && <a href={`/chats/${chatId}`}>Its chat</a>}
      {goes && (
        <button type="button" aria-disabled={stopping} onClick={() => void stop()}>
          {stopping ? "Stopping…" : "Stop"}
        </button>
      )}
      <button type="button" onClick={() => void tried(() => save(runId))}>
        Export
      </button>
      {!goes && !sure && (
        <button type="button" class="danger" ref={remover} onClick={() => setSure(true)}>
          Delete
        </button>
      )}
      {!goes && sure && (
        <>
          <button type="button" class="danger" onClick={() => void tried(() => forget(runId))}>
            Delete for good
          </button>
          <button type="button" ref={takesFocus} onClick={() => setSure(false)}>
            Keep
          </button>
        </>
      )}
    </div>
  );
}

async function tried(deed: () => Promise<unknown>): Promise<void> {
  try {
    await deed();
  } catch (error) {
    alarm(refusal(error));
  }
}

/** Through the page, not by a plain link: a link cannot carry the key. */
async function save(runId: string): Promise<void> {
  download(`${runId}.json`, await (await request(`/v1/runs/${encodeURIComponent(runId)}/export`)).blob());
}

async function forget(runId: string): Promise<void> {
  await api.deleteRun(runId);
  announce("The run is deleted.");
  go("/runs");
}

/** What the gateway says of the run beside its events: again when it has ended. */
function useRun(runId: string, goes: boolean): Run | undefined {
  const [run, setRun] = useState<Run>();
  useEffect(() => {
    api.run(runId).then(setRun, () => undefined);
  }, [runId, goes]);
  return run;
}
