// The menu beside the prompt that uploads images.
import { inside } from "./changes.js";
import { h, icon } from "./markup.js";
import { showToast } from "./notices.js";
import { options } from "./options.js";
import { passed } from "./server.js";

const MAX_BYTES = 20 * 1024 * 1024;

export const attachments = h("ms-prompt-media", {});
let attached = [];
let host = null;

export function attachMenu() {
  const label = "Insert assets such as images, videos, files, or audio";
  const button = { part: "attach_button", type: "button", "aria-label": label, "data-test-id": "add-media-button", onclick: openMenu };
  host = h("ms-add-chunk-menu", {}, h("button", button, icon("add_circle")));
  return host;
}

/** The images of the next prompt, which has them from now on. */
export function takeAttachments() {
  const taken = attached;
  attached = [];
  attachments.replaceChildren();
  return taken;
}

function openMenu() {
  const input = h("input", {
    part: "file_input",
    type: "file",
    multiple: "",
    class: "file-input",
    "data-test-upload-file-input": "",
    onchange: () => {
      close();
      for (const file of input.files) upload(file);
    },
  });
  const item = { type: "button", role: "menuitem", "aria-label": "Upload File", onclick: () => input.click() };
  const menu = h("div", { role: "menu", class: "mat-mdc-menu-panel" }, h("button", item, icon("upload"), "Upload File", input));
  const onKey = (event) => event.key === "Escape" && close();
  const close = () => {
    menu.remove();
    document.removeEventListener("keydown", onKey);
  };
  document.addEventListener("keydown", onKey);
  inside(host).append(menu);
}

async function upload(file) {
  if (!file.type.startsWith("image/") || file.size > MAX_BYTES) return showToast(`Cannot upload ${file.name}`, "error");
  const bar = h("mat-progress-bar", { class: "upload-spinner", role: "progressbar" });
  attachments.append(bar);
  await passed("upload");
  const data = await new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(file);
  });
  if (options.refuses_images) {
    bar.remove();
    return showToast(`Cannot upload ${file.name}`, "error");
  }
  const image = { name: file.name, mimeType: file.type, data: data.slice(data.indexOf(",") + 1), url: data };
  const chip = h("ms-image-chunk", {}, h("img", { src: image.url, alt: image.name }));
  attached.push(image);
  bar.replaceWith(chip);
}
