// One exchange of a chat: the user's message and the run that answers it.
import { useMemo, useRef, useState } from "preact/hooks";
import { CopyButton } from "../parts/code";
import { LongText } from "../parts/longtext";
import { useAnnounced } from "../run/announced";
import { Elapsed } from "../run/elapsed";
import { RunBody } from "../run/body";
import type { Followed } from "../run/follow";
import { useNow } from "../wire/clock";
import type { Conversation } from "./conversation";
import { useFocusBack } from "../focus";
import { focusEditor } from "./focus";
import { isShown, togglePanel } from "./panel";
import { NOTHING, answerOf, asked, isEmpty, joined, type Draft } from "./request";
import { useNear } from "./scroll";
import { FileChip, MessageEditor } from "./editor";

interface TurnProps {
  conversation: Conversation;
  runId: string;
  /** The last run is loaded immediately. */
  last: boolean;
}

/** Follows the run only when it is near the visible area, so that a long chat opens as fast as a short one. */
export function Turn({ conversation, runId, last }: TurnProps) {
  const place = useRef<HTMLElement>(null);
  const shown = useNear(place) || last;
  return (
    <article class="turn" ref={place} data-turn={runId}>
      {!shown && <p class="hint turn-far">…</p>}
      {shown && <Shown conversation={conversation} runId={runId} run={conversation.run(runId)} />}
    </article>
  );
}

function Shown({ conversation, runId, run }: { conversation: Conversation; runId: string; run: Followed }) {
  const view = run.view.value;
  const active = view.endedAt === undefined && run.connection.value !== "refused";
  const now = useNow(active);
  useAnnounced(view);
  const said = useMemo(() => (view.startedAt ? asked(view.messages) : conversation.sent(runId)), [view.messages]);
  const idle = conversation.live.value === undefined && !conversation.sending.value;
  const resend = async (draft: Draft) => {
    if (await conversation.send(draft, runId)) focusEditor();
  };
  const addToMessage = (text: string) => {
    conversation.draft.value = joined(conversation.draft.value, { ...NOTHING, text });
    focusEditor();
  };
  // Keeps its height until the run is loaded. Otherwise all runs above would come near and load too.
  const waiting = active && !view.startedAt && isEmpty(said);
  return (
    <div class={waiting ? "turn-far" : ""}>
      <Asked said={said} editable={idle} onResend={(draft) => void resend(draft)} />
      <RunBody view={view} followed={run} runId={runId} live={active} now={now} chatId={conversation.id} onAddToMessage={addToMessage} />
      {(!active || view.calls.size > 0) && (
        <div class="row turn-foot" data-active={active}>
          {!active && <>
          {answerOf(view) && <CopyButton text={() => answerOf(view)} label="Copy as Markdown" />}
          <button
            type="button"
            class="plain small"
            title="Ask again from here"
            aria-disabled={!idle || isEmpty(said)}
            onClick={() => idle && !isEmpty(said) && void resend(said)}
          >
            Retry
          </button>
          <a class="small" href={`/runs/${runId}`}>View run</a>
          </>}
          <TimelineButton runId={runId} />
          <span class="grow" />
          {view.startedAt > 0 && <Elapsed from={view.startedAt} to={view.endedAt} now={now} />}
        </div>
      )}
    </div>
  );
}

function TimelineButton({ runId }: { runId: string }) {
  const content = { kind: "timeline", runId } as const;
  return (
    <button type="button" class="plain small" aria-expanded={isShown(content)} onClick={() => togglePanel(content)}>
      Timeline
    </button>
  );
}

interface AskedProps {
  said: Draft;
  editable: boolean;
  onResend: (draft: Draft) => void;
}

function Asked({ said, editable, onResend }: AskedProps) {
  const [edited, setEdited] = useState<Draft | undefined>(undefined);
  const edit = useRef<HTMLButtonElement>(null);
  useFocusBack(edited !== undefined, edit);
  if (edited) {
    const leave = () => setEdited(undefined);
    return <Edited draft={edited} allowed={editable} onChange={setEdited} onSend={() => onResend(edited)} onLeave={leave} />;
  }
  return (
    <div class="asked">
      <h2 class="unseen">You asked</h2>
      {said.images.map((url, index) => (
        <AskedImage key={index} url={url} number={index + 1} />
      ))}
      {said.files.map((file, index) => <FileChip key={index} file={file} />)}
      {said.text && <LongText class="asked-text bubble" text={said.text} />}
      <div class="row asked-foot">
        <CopyButton text={said.text} />
        <button
          type="button"
          class="plain small"
          ref={edit}
          aria-disabled={!editable}
          title={editable ? "Edit this message and ask again from here" : "Stop the run first"}
          onClick={() => editable && setEdited(said)}
        >
          Edit
        </button>
      </div>
    </div>
  );
}

/** Only `data:` images are displayed: the page sends requests to its gateway only. */
function AskedImage({ url, number }: { url: string; number: number }) {
  if (url.startsWith("data:image/")) return <img class="asked-picture" src={url} alt={`Image ${number} of the message`} />;
  return <p class="asked-text bubble">{url.startsWith("data:") ? `File ${number} of the message` : url}</p>;
}

interface EditedProps {
  draft: Draft;
  allowed: boolean;
  onChange: (draft: Draft) => void;
  onSend: () => void;
  onLeave: () => void;
}

function Edited({ draft, allowed, onChange, onSend, onLeave }: EditedProps) {
  const ready = allowed && !isEmpty(draft);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    onLeave();
  };
  return (
    <div class="asked asked-edited" onKeyDown={leave}>
      <MessageEditor draft={draft} label="Edit message" onChange={onChange} onSend={() => ready && onSend()} focused>
        <span class="grow" />
        {!allowed && <span class="hint">Wait for the answer or stop the run.</span>}
        <button type="button" class="small" onClick={onLeave}>Cancel</button>
        <button type="button" class="small main" disabled={!ready} onClick={onSend}>Send again</button>
      </MessageEditor>
    </div>
  );
}
