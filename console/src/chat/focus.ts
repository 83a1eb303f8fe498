/** To where one writes; but on a touch screen that would bring the keyboard over what is read. */
export function focusWriting(): void {
  if (matchMedia("(pointer: fine)").matches) document.querySelector<HTMLElement>(".composer textarea")?.focus();
}
