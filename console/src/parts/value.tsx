// Any argument or result of a tool.
import { useMemo, useState } from "preact/hooks";
import { announce } from "../announce";
import { CopyButton } from "./code";
import { download } from "./download";
import { FIRST_SHOWN, MAX_SHOWN, beginning, sizeOf, textOf, withoutPictures, type Picture } from "./format";
import "../styles/parts.css";

/** JSON, text or images. A long value is shortened; copy and download give the whole value. */
export function Value({ value, label }: { value: unknown; label?: string }) {
  const { text, pictures } = useMemo(() => {
    const { rest, pictures } = withoutPictures(value);
    return { text: textOf(rest), pictures };
  }, [value]);
  const whole = () => (pictures.length ? textOf(value) : text);
  const name = label ?? "value";
  return (
    <div class="value">
      <div class="value-top">
        <span class="grow">{label}</span>
        <CopyButton text={whole} of={name} />
        <button type="button" class="plain small" aria-label={`Download ${name}`} onClick={() => save(name, value, whole())}>
          Download
        </button>
      </div>
      {(text || !pictures.length) && <Preview text={text} />}
      {pictures.map((picture) => (
        <Image picture={picture} />
      ))}
    </div>
  );
}

function Preview({ text }: { text: string }) {
  const [length, setLength] = useState(FIRST_SHOWN);
  const shown = beginning(text, length);
  const rest = text.length - shown.length;
  const more = () => {
    setLength(length * 2);
    announce(`${sizeOf(Math.min(text.length, length * 2))} of ${sizeOf(text.length)} shown`);
  };
  return (
    <>
      <pre tabIndex={0}>{shown}</pre>
      {rest > 0 && (
        <p class="value-more">
          {sizeOf(shown.length)} of {sizeOf(text.length)} shown.{" "}
          {length < MAX_SHOWN ? (
            <button type="button" class="small" onClick={more}>
              Show more
            </button>
          ) : (
            "Download it to see the rest."
          )}
        </p>
      )}
    </>
  );
}

/** An image from its base64 data. */
export function Image({ picture }: { picture: Picture }) {
  return <img class="value-image" src={`data:${picture.mime};base64,${picture.data}`} alt={`Image (${picture.mime})`} />;
}

function save(name: string, value: unknown, text: string): void {
  const plain = typeof value === "string";
  const file = new Blob([text], { type: plain ? "text/plain" : "application/json" });
  download(`${name.toLowerCase().replace(/\W+/g, "-")}.${plain ? "txt" : "json"}`, file);
}
