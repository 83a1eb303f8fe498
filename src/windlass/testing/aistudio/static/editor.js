// The dialog that edits function declarations.
import { changes } from "./changes.js";
import { h, icon, mark } from "./markup.js";
import { openDialog } from "./overlay.js";
import { options } from "./options.js";
import { declarationsIn } from "./schema.js";
import { passed, tell } from "./server.js";
import { changed, state } from "./state.js";

const TABS = ["Code Editor", "Visual Editor"];

export async function openEditor() {
  await passed("dialog");
  new Editor();
}

class Editor {
  constructor() {
    this.draft = state.declarations.length ? JSON.stringify(state.declarations, null, 2) : "";
    this.panel = h("div", { role: "tabpanel" });
    this.error = h("div", { class: "error-message", role: "alert" });
    this.tabs = TABS.map((name) =>
      h(
        "button",
        {
          part: name === "Code Editor" ? "code_editor_tab" : undefined,
          type: "button",
          role: "tab",
          onclick: () => this.show(name),
        },
        name,
      ),
    );
    this.show(options.visual_tab_first ? "Visual Editor" : "Code Editor");
    this.close = openDialog(
      h(
        "ms-edit-function-declarations-dialog",
        {},
        h("h2", {}, "Function declarations"),
        this.button("close_button", "Close", icon("close"), () => this.close()),
        h("ms-tab-group", {}, h("div", { role: "tablist" }, ...this.tabs)),
        this.panel,
        this.error,
        this.button("reset_button", "Reset the function declarations", "Reset", () => this.edit("")),
        this.button("save_button", "Save the current function declarations", "Save", () =>
          this.save(),
        ),
      ),
    );
  }

  button(part, label, content, onclick) {
    return h("button", { part, type: "button", "aria-label": label, onclick }, content);
  }

  show(name) {
    this.tabs.forEach((tab, place) => mark(tab, { "aria-selected": String(TABS[place] === name) }));
    this.panel.replaceChildren(name === "Code Editor" ? this.code() : this.visual());
  }

  code() {
    if (changes.editor === "editable") {
      const field = h("div", { contenteditable: "true", role: "textbox", class: "code", oninput: () => this.edit(field.innerText) });
      field.textContent = this.draft;
      return h("ms-text-editor", {}, field);
    }
    const textarea = (this.field = h("textarea", {
      part: "declarations_textarea",
      placeholder: "Press Tab to see an example, or paste your function declarations",
      oninput: () => this.edit(textarea.value),
    }));
    textarea.value = this.draft;
    return h("ms-text-editor", {}, textarea);
  }

  visual() {
    const names = state.declarations.map(({ name }) => h("li", {}, name));
    return h("ms-visual-editor", {}, h("ul", {}, ...names));
  }

  edit(text) {
    this.draft = text;
    this.declarations();
    if (this.field && this.field.value !== text) this.field.value = text;
  }

  /** The declarations of the draft, or null, and then the error is shown. */
  declarations() {
    try {
      const declarations = declarationsIn(this.draft);
      this.error.textContent = "";
      return declarations;
    } catch (error) {
      this.error.textContent = error.message;
      return null;
    }
  }

  async save() {
    const declarations = this.declarations();
    if (declarations === null) return;
    await passed("save");
    await tell("saved", declarations);
    state.declarations = declarations;
    this.close();
    changed();
  }
}
