/** Focuses the message box, except on touch screens, where the keyboard would cover the page. */
export function focusEditor(): void {
  if (matchMedia("(pointer: fine)").matches) document.querySelector<HTMLElement>(".composer textarea")?.focus();
}
