// Images that are pasted, dropped or selected.

export class NotAnImage extends Error {}

/** Files as `data:` URLs, in order. Throws `NotAnImage`. */
export async function imagesOf(files: Iterable<File>): Promise<string[]> {
  return Promise.all(Array.from(files, dataUrl));
}

/** The files of a paste or a drop. */
export function filesIn(transfer: DataTransfer | null): File[] {
  return Array.from(transfer?.files ?? []);
}

function dataUrl(file: File): Promise<string> {
  if (!file.type.startsWith("image/")) {
    throw new NotAnImage(`${file.name} is not an image. Only images can be attached.`);
  }
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new NotAnImage(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
}
