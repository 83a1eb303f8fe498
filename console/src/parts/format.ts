// Values as text, shortened to what a page can display. Pure.

/** The characters shown at first. "Show more" doubles them, up to `MAX_SHOWN`. */
export const FIRST_SHOWN = 20_000;
export const MAX_SHOWN = 8 * FIRST_SHOWN;

export interface Picture {
  data: string;
  mime: string;
}

/** A string unchanged, any other value as indented JSON. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : jsonOf(value, 2);
}

/** Characters that change the text direction: they could disguise the arguments of a call that waits for approval. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** JSON in which characters that change the text direction are escaped. */
export function jsonOf(value: unknown, indent = 0): string {
  const written = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return (JSON.stringify(value, null, indent) ?? "").replace(TURNS, written);
}

/** A value beside its name: a text without quotes, unless it would look like another value or have invisible characters. */
export function shownOf(value: unknown, indent = 0): string {
  return typeof value === "string" && isPlain(value) ? value : jsonOf(value, indent);
}

function isPlain(text: string): boolean {
  if (!text || text !== text.trim() || /[^\P{C}\n\t]/u.test(text)) return false;
  try {
    JSON.parse(text);
    return false;
  } catch {
    return true;
  }
}

const MAX_LINE = 160;

/** The beginning of a value on one line: "city: Paris, nights: 2" for an object. */
export function oneLine(value: unknown): string {
  const fields = fieldsIn(value);
  const text = fields ? fields.map(([name, each]) => `${name}: ${shownOf(each)}`).join(", ") : shownOf(value);
  return text.slice(0, MAX_LINE).replace(/\s+/g, " ");
}

/** The names and values of an object; undefined for any other value, and for an empty object. */
export function fieldsIn(value: unknown): [name: string, value: unknown][] | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const fields = Object.entries(value);
  return fields.length ? fields : undefined;
}

/** Whether a value can be read beside its name: no object, and no list of objects or lists. */
export function isFlat(value: unknown): boolean {
  return typeof value !== "object" || value === null || (Array.isArray(value) && value.every((each) => typeof each !== "object" || each === null));
}

/** At most `length` characters, without splitting a surrogate pair. */
export function beginning(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}

/** "340 B", "20 kB", "2.1 MB". */
export function sizeOf(characters: number): string {
  if (characters < 1_000) return `${characters} B`;
  if (characters < 999_500) return `${Math.round(characters / 1_000)} kB`;
  return `${(characters / 1_000_000).toFixed(1)} MB`;
}

/** The image in a value: a Windlass part, an MCP part, or a `data:` URL. */
export function pictureOf(value: unknown): Picture | null {
  if (typeof value === "string") {
    const found = /^data:(image\/[\w.+-]+);base64,([A-Za-z0-9+/=]+)$/.exec(value);
    return found ? { mime: found[1] ?? "", data: found[2] ?? "" } : null;
  }
  if (typeof value !== "object" || value === null) return null;
  const { data, mime_type, mimeType } = value as Record<string, unknown>;
  const mime = mime_type ?? mimeType;
  return typeof data === "string" && typeof mime === "string" && mime.startsWith("image/") ? { mime, data } : null;
}

/** The images in a value, and the value without their bytes. */
export function withoutPictures(value: unknown): { rest: unknown; pictures: Picture[] } {
  const pictures: Picture[] = [];
  const taken = (part: unknown): unknown => {
    const picture = pictureOf(part);
    if (!picture) return part;
    pictures.push(picture);
    return `(${picture.mime}, ${sizeOf(Math.round(picture.data.length * 0.75))}, shown below)`;
  };
  const itself = pictureOf(value);
  if (itself) return { rest: "", pictures: [itself] };
  if (Array.isArray(value)) return { rest: value.map(taken), pictures };
  if (typeof value !== "object" || value === null) return { rest: value, pictures };
  const fields = Object.entries(value).map(([name, part]) => [name, Array.isArray(part) ? part.map(taken) : taken(part)]);
  return { rest: Object.fromEntries(fields), pictures };
}
