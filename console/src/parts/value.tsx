// Any argument or result of a tool.
import { useMemo, useState } from "preact/hooks";
import { announce } from "../announce";
import { CopyButton } from "./code";
import { download } from "./download";
import { FIRST_SHOWN, MAX_SHOWN, beginning, fieldsIn, isFlat, shownOf, sizeOf, textOf, withoutPictures, type Picture } from "./format";
import "../styles/parts.css";

interface ValueProps {
  value: unknown;
  label?: string;
  /** Shows any object as names and values, not only one without further objects in it. */
  named?: boolean;
}

/** Names and values, JSON, text or images. A long value is shortened; copy and download give the whole value. */
export function Value({ value, label, named = false }: ValueProps) {
  const { text, fields, pictures } = useMemo(() => {
    const { rest, pictures } = withoutPictures(value);
    const text = textOf(rest);
    const fields = text.length > FIRST_SHOWN ? undefined : fieldsIn(rest);
    return { text, fields: named || fields?.every(([, each]) => isFlat(each)) ? fields : undefined, pictures };
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
      {fields && <Fields fields={fields.map(([name, value]) => ({ name, value }))} />}
      {!fields && (text || !pictures.length) && <Preview text={text} />}
      {pictures.map((picture) => (
        <Image picture={picture} />
      ))}
    </div>
  );
}

interface Field {
  name: string;
  value: unknown;
  description?: string;
  isDefault?: boolean;
}

/** A longer value has a box of its own, if the list has room for boxes. */
const MAX_INLINE = 200;

/** A list of names and values. */
export function Fields({ fields, label, boxes = false }: { fields: readonly Field[]; label?: string; boxes?: boolean }) {
  return (
    <dl class="fields" aria-label={label}>
      {fields.map(({ name, value, description, isDefault }) => {
        const text = shownOf(value, 2);
        return (
          <div key={name} data-default={isDefault}>
            <dt title={description}>{name}</dt>
            <dd>
              {boxes && text.length > MAX_INLINE ? <Value value={value} label={name} /> : typeof value === "string" ? text : <code>{text}</code>}
              {isDefault && <span class="hint"> default</span>}
            </dd>
          </div>
        );
      })}
    </dl>
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
export function Image({ picture: { mime, data } }: { picture: Picture }) {
  const address = `data:${mime};base64,${data}`;
  return (
    <figure class="picture">
      <img src={address} alt={`Image (${mime})`} />
      <a class="small" href={address} download={`image.${/\w+/.exec(mime.slice(6))?.[0]}`}>Download image</a>
    </figure>
  );
}

function save(name: string, value: unknown, text: string): void {
  const plain = typeof value === "string";
  const file = new Blob([text], { type: plain ? "text/plain" : "application/json" });
  download(`${name.toLowerCase().replace(/\W+/g, "-")}.${plain ? "txt" : "json"}`, file);
}
