// The composer below a chat: write and send the next message, stop the run.
import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { model, models, noModels } from "./models";
import { isFocusFree } from "../focus";
import type { Conversation } from "./conversation";
import { focusEditor } from "./focus";
import { Instructions, ModelPicker, ToolPicker, toolsLabel } from "./options";
import { firstWrong } from "./parameters";
import { NOTHING, isEmpty, joined, unfit } from "./request";
import { settings } from "./settings";
import { MessageEditor } from "./editor";

const TIP = "Enter to send, Shift+Enter for a new line";

type Panel = "" | "tools" | "settings";

export function Composer({ conversation, onSent }: { conversation: Conversation; onSent: () => void }) {
  const panel = useSignal<Panel>("");
  const foot = useRef<HTMLElement>(null);
  const [panelId, reasonId] = [useId(), useId()];
  const why = whyNot(conversation);
  const live = conversation.live.value;
  useEffect(() => {
    if (live) return;
    // A run that has ended needs no stop, so the message about a failed one no longer applies.
    conversation.problem.value = "";
    if (isFocusFree()) focusEditor();
  }, [live]);

  useEffect(() => {
    if (!live && conversation.queue.value.length) void conversation.sendQueued().then((sent) => sent && onSent());
  }, [live, conversation.queue.value, conversation.sending.value]);

  const send = async () => {
    const draft = conversation.draft.value;
    if (why || isEmpty(draft)) return;
    conversation.draft.value = NOTHING;
    panel.value = "";
    if (live) return conversation.enqueue(draft);
    if (await conversation.send(draft)) onSent();
    else conversation.draft.value = joined(draft, conversation.draft.value);
  };
  const leavePanel = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !panel.value) return;
    event.preventDefault();
    foot.current?.querySelector<HTMLElement>(`[data-panel=${panel.value}]`)?.focus();
    panel.value = "";
  };
  const opener = (name: Panel, label: string) => (
    <button
      type="button"
      class="small"
      data-panel={name}
      aria-expanded={panel.value === name}
      aria-controls={panelId}
      onClick={() => (panel.value = panel.value === name ? "" : name)}
    >
      {label}
    </button>
  );

  return (
    <footer class="composer" ref={foot} onKeyDown={leavePanel}>
      <div class="options" id={panelId} hidden={!panel.value}>
        {panel.value === "tools" && <ToolPicker />}
        {panel.value === "settings" && <Instructions />}
      </div>
      {conversation.problem.value && <p role="alert" class="writing-problem">{conversation.problem}</p>}
      <Queue conversation={conversation} />
      <MessageEditor
        draft={conversation.draft.value}
        label="Message"
        onChange={(draft) => (conversation.draft.value = draft)}
        onSend={() => void send()}
      >
        <ModelPicker />
        {opener("tools", toolsLabel())}
        {opener("settings", "Settings")}
        <span class="grow" />
        <span id={reasonId} class={why === TIP ? "hint composer-tip" : "hint composer-why"}>
          {why}
        </span>
        {live && <StopButton conversation={conversation} />}
        {(!live || !isEmpty(conversation.draft.value)) && (
          <button type="button" class="main" disabled={why !== ""} aria-describedby={reasonId} onClick={() => void send()}>
            {live ? "Queue" : "Send"}
          </button>
        )}
      </MessageEditor>
    </footer>
  );
}

/** The messages that wait for the end of the active run. */
function Queue({ conversation }: { conversation: Conversation }) {
  const queue = conversation.queue.value;
  if (!queue.length) return null;
  const edit = (index: number) => {
    conversation.draft.value = joined(queue[index] ?? NOTHING, conversation.draft.value);
    conversation.unqueue(index);
    focusEditor();
  };
  return (
    <ul class="queue" aria-label="Queued messages">
      {queue.map((draft, index) => (
        <li key={index} class="row">
          <span class="hint">Queued</span>
          <span class="grow queue-text">{draft.text || "Attachments"}</span>
          <button type="button" class="plain small" onClick={() => edit(index)}>Edit</button>
          <button type="button" class="plain small" onClick={() => conversation.unqueue(index)}>Remove</button>
        </li>
      ))}
    </ul>
  );
}

function StopButton({ conversation }: { conversation: Conversation }) {
  const stopping = conversation.stopping.value !== "";
  // The button disappears when the run ends, so the focus moves to the message box.
  const stop = () => {
    focusEditor();
    void conversation.stop();
  };
  return (
    <button
      type="button"
      class="danger"
      aria-disabled={stopping}
      title="Stop this run (Escape)"
      onClick={stop}
    >
      {stopping ? "Stopping…" : "Stop"}
    </button>
  );
}

/** Why a message cannot be sent now, or "". */
function whyNot(conversation: Conversation): string {
  if (noModels.value) return noModels.value;
  if (!models.value || !model.value) return "Loading models…";
  if (conversation.sending.value) return "Sending…";
  const draft = conversation.draft.value;
  // The editor shows why the model cannot take an attachment.
  if (unfit(draft, model.value)) return "Cannot send";
  if (conversation.live.value) return "";
  return firstWrong(settings.value) || (isEmpty(draft) ? TIP : "");
}
