// An editor for a message: text and attachments.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { hasKeyboard } from "../shortcuts";
import { ACCEPTED, attachmentsOf, filesIn } from "./attachments";
import { model } from "./models";
import { unfit, type AttachedFile, type Draft } from "./request";

interface MessageEditorProps {
  draft: Draft;
  label: string;
  onChange: (draft: Draft) => void;
  onSend: () => void;
  /** Takes the focus when it is mounted. */
  focused?: boolean;
  /** The row below the text, mostly buttons. */
  children: ComponentChildren;
}

export function MessageEditor({ draft, label, onChange, onSend, focused = false, children }: MessageEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [problem, setProblem] = useState("");
  // The user may type while files are being read.
  const latest = useRef(draft);
  latest.current = draft;
  useEffect(() => {
    if (focused) field.current?.focus();
  }, []);

  // The problem was about an attempt: it no longer applies once the message changes.
  const change = (changed: Draft) => {
    setProblem("");
    onChange(changed);
  };
  const add = async (files: File[]) => {
    try {
      const { images, files: others } = await attachmentsOf(files);
      const { text, images: before, files: earlier } = latest.current;
      change({ text, images: [...before, ...images], files: [...earlier, ...others] });
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const bring = (event: Event, transfer: DataTransfer | null) => {
    const files = filesIn(transfer);
    if (!files.length) return;
    event.preventDefault();
    void add(files);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    // The keyboard of a touch screen has no Shift+Enter for a new line.
    if (!hasKeyboard && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    onSend();
  };

  return (
    <div
      class="writing"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => bring(event, event.dataTransfer)}
    >
      <Previews draft={draft} onChange={change} />
      <textarea
        ref={field}
        rows={1}
        aria-label={label}
        placeholder={label}
        value={draft.text}
        onInput={(event) => change({ ...draft, text: event.currentTarget.value })}
        onKeyDown={key}
        onPaste={(event) => bring(event, event.clipboardData)}
      />
      {(problem || unfit(draft, model.value)) && <p role="alert" class="writing-problem">{problem || unfit(draft, model.value)}</p>}
      <div class="row writing-row">
        <AttachButton onFiles={(files) => void add(files)} />
        {children}
      </div>
    </div>
  );
}

function Previews({ draft, onChange }: { draft: Draft; onChange: (draft: Draft) => void }) {
  const { images, files } = draft;
  if (!images.length && !files.length) return null;
  return (
    <ul class="previews" aria-label="Attachments">
      {images.map((url, index) => (
        <li key={url.slice(0, 200) + index}>
          <img src={url} alt={`Image ${index + 1}`} />
          <Remove name={`image ${index + 1}`} onClick={() => onChange({ ...draft, images: images.toSpliced(index, 1) })} />
        </li>
      ))}
      {files.map((file, index) => (
        <li key={file.name + index}>
          <FileChip file={file} />
          <Remove name={file.name} onClick={() => onChange({ ...draft, files: files.toSpliced(index, 1) })} />
        </li>
      ))}
    </ul>
  );
}

function Remove({ name, onClick }: { name: string; onClick: () => void }) {
  return (
    <button type="button" class="small" aria-label={`Remove ${name}`} onClick={onClick}>
      ×
    </button>
  );
}

/** The name of a file, with its kind. */
export function FileChip({ file }: { file: AttachedFile }) {
  const kind = /\.(\w{1,5})$/.exec(file.name)?.[1] ?? ("text" in file ? "text" : "file");
  return (
    <span class="file-chip" title={file.name}>
      <span class="file-kind">{kind.toUpperCase()}</span>
      <span class="file-name">{file.name}</span>
    </span>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: File[]) => void }) {
  const picker = useRef<HTMLInputElement>(null);
  const picked = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    onFiles(Array.from(input.files ?? []));
    input.value = "";
  };
  return (
    <>
      <input ref={picker} type="file" accept={ACCEPTED} multiple hidden aria-label="Files" onChange={picked} />
      <button
        type="button"
        class="small"
        aria-label="Attach files"
        title="Attach text, CSV or PDF files, or images. You can also paste or drop them."
        onClick={() => picker.current?.click()}
      >
        +
      </button>
    </>
  );
}
