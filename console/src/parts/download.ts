/** Hands the person a file that the page has. */
export function download(name: string, file: Blob): void {
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser reads it a while later.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
