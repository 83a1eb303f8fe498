// Pictures that are pasted, dropped or chosen.

export class NotAPicture extends Error {}

/** Files as `data:` addresses, in their order. Raises `NotAPicture`. */
export async function picturesOf(files: Iterable<File>): Promise<string[]> {
  return Promise.all(Array.from(files, dataUrl));
}

/** The files that a paste or a drop brings. */
export function filesIn(transfer: DataTransfer | null): File[] {
  return Array.from(transfer?.files ?? []);
}

function dataUrl(file: File): Promise<string> {
  if (!file.type.startsWith("image/")) {
    throw new NotAPicture(`${file.name} is not a picture: only pictures can be sent along.`);
  }
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new NotAPicture(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
