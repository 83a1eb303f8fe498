// An editor for a message: text and images.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { filesIn, imagesOf } from "./images";
import type { Draft } from "./request";

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

  const add = async (files: File[]) => {
    try {
      const images = await imagesOf(files);
      setProblem("");
      onChange({ ...latest.current, images: [...latest.current.images, ...images] });
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
    event.preventDefault();
    onSend();
  };

  return (
    <div
      class="writing"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => bring(event, event.dataTransfer)}
    >
      <Previews images={draft.images} onRemove={(index) => onChange({ ...draft, images: draft.images.toSpliced(index, 1) })} />
      <textarea
        ref={field}
        rows={1}
        aria-label={label}
        placeholder={label}
        value={draft.text}
        onInput={(event) => onChange({ ...draft, text: event.currentTarget.value })}
        onKeyDown={key}
        onPaste={(event) => bring(event, event.clipboardData)}
      />
      {problem && <p role="alert" class="writing-problem">{problem}</p>}
      <div class="row writing-row">
        <ImageButton onFiles={(files) => void add(files)} />
        {children}
      </div>
    </div>
  );
}

function Previews({ images, onRemove }: { images: readonly string[]; onRemove: (index: number) => void }) {
  if (!images.length) return null;
  return (
    <ul class="previews" aria-label="Images to send">
      {images.map((url, index) => (
        <li key={url.slice(0, 200) + index}>
          <img src={url} alt={`Image ${index + 1}`} />
          <button type="button" class="small" aria-label={`Remove image ${index + 1}`} onClick={() => onRemove(index)}>
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

function ImageButton({ onFiles }: { onFiles: (files: File[]) => void }) {
  const picker = useRef<HTMLInputElement>(null);
  const picked = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    onFiles(Array.from(input.files ?? []));
    input.value = "";
  };
  return (
    <>
      <input ref={picker} type="file" accept="image/*" multiple hidden aria-label="Images" onChange={picked} />
      <button
        type="button"
        class="small"
        aria-label="Add images"
        title="Add images. You can also paste or drop them."
        onClick={() => picker.current?.click()}
      >
        +
      </button>
    </>
  );
}
