// One turn of a conversation: what the person asked, and the run that answers.
import { useMemo, useRef, useState } from "preact/hooks";
import { CopyButton } from "../parts/code";
import { Long } from "../parts/long";
import { useAnnounced } from "../run/announced";
import { RunBody } from "../run/body";
import type { Followed } from "../run/follow";
import { useNow } from "../wire/clock";
import type { Conversation } from "./conversation";
import { useFocusBack } from "../focus";
import { focusWriting } from "./focus";
import { answerOf, asked, isEmpty, joined, type Draft } from "./request";
import { useNear } from "./scroll";
import { Writing } from "./writing";

interface TurnProps {
  conversation: Conversation;
  runId: string;
  /** The last is what one looks at, and is there at once. */
  last: boolean;
}

/** Is followed when it comes near to the screen: a long chat opens as fast as a short one. */
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
  const going = view.endedAt === undefined && run.connection.value !== "refused";
  const now = useNow(going);
  useAnnounced(view);
  const said = useMemo(() => (view.startedAt ? asked(view.messages) : conversation.sent(runId)), [view.messages]);
  const idle = conversation.live.value === undefined && !conversation.sending.value;
  const resend = async (draft: Draft) => {
    if (await conversation.send(draft, runId)) focusWriting();
  };
  const tell = (text: string) => {
    conversation.draft.value = joined(conversation.draft.value, { text, images: [] });
    focusWriting();
  };
  // As high as before until there is something: else all that is above would come near, and be loaded.
  const waiting = going && !view.startedAt && isEmpty(said);
  return (
    <div class={waiting ? "turn-far" : ""}>
      <Asked said={said} editable={idle} onResend={(draft) => void resend(draft)} />
      <RunBody view={view} followed={run} runId={runId} live={going} now={now} onTell={tell} />
      {!going && (
        <div class="row turn-foot">
          <button
            type="button"
            class="plain small"
            title="Ask the same again, from here"
            aria-disabled={!idle || isEmpty(said)}
            onClick={() => idle && !isEmpty(said) && void resend(said)}
          >
            Retry
          </button>
          <CopyButton text={() => answerOf(view)} label="Copy answer" />
          <a class="small" href={`/runs/${runId}`}>Run</a>
        </div>
      )}
    </div>
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
        <AskedPicture key={index} url={url} number={index + 1} />
      ))}
      {said.text && <Long class="asked-text" text={said.text} />}
      <div class="row asked-foot">
        <CopyButton text={said.text} />
        <button
          type="button"
          class="plain small"
          ref={edit}
          aria-disabled={!editable}
          title={editable ? "Change this message and ask again from here" : "Stop the run first"}
          onClick={() => editable && setEdited(said)}
        >
          Edit
        </button>
      </div>
    </div>
  );
}

/** A picture elsewhere is a link: the page asks nobody but its gateway. */
function AskedPicture({ url, number }: { url: string; number: number }) {
  if (url.startsWith("data:image/")) return <img class="asked-picture" src={url} alt={`Picture ${number} of the message`} />;
  return <p class="asked-text">{url.startsWith("data:") ? `File ${number} of the message` : url}</p>;
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
      <Writing draft={draft} label="Edit the message" onChange={onChange} onSend={() => ready && onSend()} focused>
        <span class="grow" />
        {!allowed && <span class="hint">Wait for the answer, or stop it.</span>}
        <button type="button" class="small" onClick={onLeave}>Cancel</button>
        <button type="button" class="small main" disabled={!ready} onClick={onSend}>Send again</button>
      </Writing>
    </div>
  );
}
