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

/** Escapes characters that change the text direction: they could disguise the arguments of a call that waits for approval. */
export function jsonOf(value: unknown, indent = 0): string {
  const turns = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  const written = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return (JSON.stringify(value, null, indent) ?? "").replace(turns, written);
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
