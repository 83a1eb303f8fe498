// Files that are pasted, dropped or selected.
import { sizeOf } from "../parts/format";
import type { AttachedFile } from "./request";

/** Why a file cannot be attached. */
export class Unattachable extends Error {}

export interface Attachments {
  images: string[];
  files: AttachedFile[];
}

/** Text is read by the model in full, so a long one would not fit. */
const MAX_TEXT = 500_000;
/** The gateway accepts bodies of 32 MB, and base64 adds a third. */
const MAX_BINARY = 20_000_000;

/** What the picker of files offers. */
export const ACCEPTED = "image/*,application/pdf,text/*,.csv,.md,.json,.yaml,.yml,.toml,.log,.py,.js,.ts,.sql";

/** The attachments of some files, in order. Throws `Unattachable`. */
export async function attachmentsOf(files: Iterable<File>): Promise<Attachments> {
  const made: Attachments = { images: [], files: [] };
  for (const file of files) {
    const binary = file.type.startsWith("image/") || file.type === "application/pdf";
    const limit = binary ? MAX_BINARY : MAX_TEXT;
    if (file.size > limit) throw new Unattachable(`${file.name} is too large: ${sizeOf(file.size)}. The limit is ${sizeOf(limit)}.`);
    if (file.type.startsWith("image/")) made.images.push(await dataUrl(file));
    else if (binary) made.files.push({ name: file.name, url: await dataUrl(file) });
    else made.files.push({ name: file.name, text: await textOf(file) });
  }
  return made;
}

/** The files of a paste or a drop. */
export function filesIn(transfer: DataTransfer | null): File[] {
  return Array.from(transfer?.files ?? []);
}

async function textOf(file: File): Promise<string> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch {
    // The same message as for a file with NUL characters.
  }
  throw new Unattachable(`${file.name} cannot be attached. Use a text, CSV or PDF file, or an image.`);
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Unattachable(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}
