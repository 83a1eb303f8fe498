"""The table of all elements. No other module knows the page's markup.

An element is found in several independent ways: by the page's structure (test ids, components,
attributes), by its role and its name in several languages, by its icon, by what it is beside, and
at last by the selectors of the first design of this provider (`seed`). Each way that points to an
element adds to its score; the element with the highest score is used. Two different elements with
the same score are not guessed between: the element then counts as missing.

When the page changes, `windlass aistudio doctor` names the elements that are missing; update their
rows here. Selectors are CSS, which here also crosses open shadow roots, with `:has-text("words")`.
"""

from typing import Any, Literal

from msgspec import Struct, to_builtins

from windlass.models.aistudio.phrases import PHRASES

CHECKED = "never checked against the live page"
VERSION = f"2026-11, {CHECKED}"
"""When the table was made, and when it was last checked against the page."""

Shown = Literal["always", "settings", "dialog", "chat", "sometimes"]
"""Where an element is visible: on every page, in the tools panel, in the editor of function
declarations, in a chat with turns, or only in some situations."""

Role = Literal["", "button", "menuitem", "switch", "textbox", "spinbutton", "tab", "dialog"]


class Element(Struct, frozen=True):
    """One element of the page, and the ways to find it."""

    selectors: tuple[str, ...]
    """The page's structure. The first one is what the page is known to have."""
    shown: Shown = "always"
    role: Role = ""
    """Elements of this role are also found by `names`, `icons` and `near`."""
    names: tuple[str, ...] = ()
    icons: tuple[str, ...] = ()
    near: str = ""
    """A switch: this element is in its row."""
    within: str = ""
    """The element that contains this one."""
    contains: str = ""
    """A selector: something in this element must match it."""
    hidden: bool = False
    """Whether it may be invisible."""
    seed: tuple[str, ...] = ()
    """The selectors of the first design, as the last fallbacks."""


ELEMENTS: dict[str, Element] = {
    # Writing and running a prompt.
    "prompt": Element(
        (
            'ms-prompt-box textarea[aria-label="Enter a prompt"]',
            'textarea[aria-label="Enter a prompt"]',
            "ms-prompt-box textarea",
            "ms-autosize-textarea textarea",
            "footer textarea",
            'footer [contenteditable="true"]',
            "main form textarea",
            'main form [role="textbox"]',
        ),
        role="textbox",
        names=PHRASES["prompt"],
    ),
    "run_button": Element(
        (
            "footer ms-run-button button",
            "footer ms-run-button [role=button]",
            'footer button[aria-label="Run"]',
            "footer run-button button",
            'footer button[type="submit"]',
            'main form button[type="submit"]',
        ),
        role="button",
        names=PHRASES["run"],
        icons=("keyboard_return", "play_arrow", "send", "arrow_upward"),
    ),
    "generating": Element(
        (
            "footer ms-run-button button .stoppable-spinner",
            'button[aria-label="Stop generating"]',
            'footer ms-run-button button[type="button"]',
        ),
        "sometimes",
    ),
    "stop_button": Element(
        (
            'footer ms-run-button button[type="button"]',
            'button[aria-label="Stop generating"]',
            'footer button[type="button"]:has-text("Stop")',
        ),
        "sometimes",
        role="button",
        names=PHRASES["stop"],
        icons=("stop", "stop_circle", "progress_activity"),
    ),
    "model_name": Element(
        (
            '[data-test-id="model-name"]',
            "ms-model-selector .model-name",
            "ms-model-selector .title",
            "ms-model-selector button",
        )
    ),
    "new_chat": Element(
        (
            '[data-test-id="new-chat-button"]',
            'button[aria-label="New chat"]',
            'a[aria-label="New chat"]',
            'nav a[href*="new_chat"]',
        ),
        role="button",
        names=PHRASES["new_chat"],
        icons=("add", "edit_square"),
    ),
    "discard": Element(
        (
            'mat-dialog-container button[aria-label="Discard and continue"]',
            'mat-dialog-container button:has-text("Discard and continue")',
            "ms-confirm-dialog button:last-child",
        ),
        "sometimes",
        role="button",
        names=PHRASES["discard"],
        within="confirmation",
    ),
    "confirmation": Element(
        ("ms-confirm-dialog", "mat-dialog-container"),
        "sometimes",
        role="dialog",
        contains="button",
    ),
    # Images.
    "attach_button": Element(
        (
            'button[aria-label="Insert assets such as images, videos, files, or audio"]',
            'button[data-test-id="add-media-button"]',
            "button[data-test-add-chunk-menu-button]",
            'button[aria-label^="Insert assets"]',
            "ms-add-chunk-menu button",
        ),
        "sometimes",
        role="button",
        names=PHRASES["attach"],
        icons=("add_circle", "attach_file", "note_add"),
    ),
    "file_input": Element(
        (
            'button[aria-label="Upload File"] input[type="file"]',
            "input[data-test-upload-file-input]",
            '[role="menu"] input[type="file"]',
            'input[type="file"]',
        ),
        "sometimes",
        hidden=True,
    ),
    "upload_item": Element(
        ('button[aria-label="Upload File"]', '[role="menuitem"]:has-text("Upload")'),
        "sometimes",
        role="menuitem",
        names=PHRASES["upload"],
        icons=("upload", "upload_file"),
    ),
    "attachment": Element(
        (
            "footer ms-image-chunk img",
            "ms-prompt-box ms-prompt-media img",
            "footer img",
            "form img",
        ),
        "sometimes",
    ),
    "uploading": Element(
        (
            "footer mat-progress-bar",
            "footer mat-spinner",
            'footer [role="progressbar"]',
            "footer .upload-spinner",
        ),
        "sometimes",
    ),
    # The tools panel.
    "tools_panel": Element(
        ('button[aria-label="Expand or collapse tools"]', "ms-settings-group button"),
        role="button",
        names=PHRASES["tools"],
        icons=("expand_more", "expand_less"),
    ),
    "function_row": Element(
        (
            '[data-test-id="functionCallingTooltip"]',
            "ms-function-calling-toggle",
            '.settings-item:has-text("Function calling")',
        ),
        "settings",
    ),
    "function_toggle": Element(
        (
            '[data-test-id="functionCallingTooltip"] mat-slide-toggle button[role="switch"]',
            '[data-test-id="functionCallingTooltip"] button[role="switch"]',
            'button[role="switch"][aria-label="Function calling" i]',
        ),
        "settings",
        role="switch",
        names=PHRASES["function_calling"],
        icons=("function", "functions"),
        seed=(
            'div[data-test-id="functionCallingTooltip"] mat-slide-toggle button',
            '[data-test-id*="function"] mat-slide-toggle button',
            'button[aria-label*="function calling" i]',
        ),
    ),
    "edit_button": Element(
        (
            'button[aria-label="Edit function declarations"]',
            "button.edit-function-declarations-button",
            '[data-test-id="functionCallingTooltip"] button:has-text("Edit")',
        ),
        "settings",
        role="button",
        names=PHRASES["edit_declarations"],
        icons=("edit", "edit_note"),
        near="function_toggle",
        seed=('button[aria-label="Edit functions"]', 'button:has-text("Edit")'),
    ),
    "search_toggle": Element(
        (
            '[data-test-id="searchAsAToolTooltip"] button[role="switch"]',
            'button[role="switch"][aria-label="Grounding with Google Search" i]',
        ),
        "settings",
        role="switch",
        names=PHRASES["search"],
    ),
    "url_toggle": Element(
        (
            '[data-test-id="browseAsAToolTooltip"] button[role="switch"]',
            'button[aria-label="Browse the url context" i]',
        ),
        "settings",
        role="switch",
        names=PHRASES["url_context"],
    ),
    "code_toggle": Element(
        (
            '[data-test-id="codeExecutionTooltip"] button[role="switch"]',
            'button[role="switch"][aria-label="Code execution" i]',
        ),
        "settings",
        role="switch",
        names=PHRASES["code_execution"],
    ),
    "system": Element(
        ('textarea[aria-label="System instructions"]', "ms-system-instructions textarea"),
        "sometimes",
        role="textbox",
        names=PHRASES["system"],
    ),
    "max_tokens": Element(
        (
            'input[aria-label="Maximum output tokens"]',
            '[data-test-id="maxOutputTokensContainer"] input',
        ),
        "sometimes",
        role="spinbutton",
        names=PHRASES["max_tokens"],
    ),
    "temperature": Element(
        (
            '[data-test-id="temperatureSliderContainer"] input[type="number"]',
            'input[type="number"][aria-label="Temperature" i]',
            'ms-slider input[type="number"][max="2"]',
        ),
        "sometimes",
        role="spinbutton",
        names=PHRASES["temperature"],
    ),
    "top_p": Element(
        (
            '[data-test-id="topPSliderContainer"] input[type="number"]',
            'input[type="number"][aria-label="Top P" i]',
            'ms-slider input[type="number"][max="1"]',
        ),
        "sometimes",
        role="spinbutton",
        names=PHRASES["top_p"],
    ),
    # The editor of function declarations.
    "dialog": Element(
        (
            "mat-dialog-container ms-edit-function-declarations-dialog",
            "ms-edit-function-declarations-dialog",
        ),
        "dialog",
        role="dialog",
        names=PHRASES["declarations"],
        contains='textarea, [contenteditable="true"], [role="textbox"], [role="tab"]',
    ),
    "code_tab": Element(
        (
            'ms-tab-group button[role="tab"]:has-text("Code Editor")',
            '[role="tab"]:has-text("Code Editor")',
        ),
        "dialog",
        role="tab",
        names=PHRASES["code_editor"],
        icons=("code", "data_object"),
        within="dialog",
    ),
    "editor": Element(
        (
            'ms-text-editor textarea[placeholder^="Press Tab"]',
            "ms-text-editor textarea",
            "textarea",
            '[contenteditable="true"]',
            '[role="textbox"]',
        ),
        "dialog",
        within="dialog",
        seed=(
            'textarea[aria-label*="function" i]',
            "textarea.function-declarations",
            ".function-editor textarea",
        ),
    ),
    "save_button": Element(
        (
            'button[aria-label="Save the current function declarations"]',
            "button.ms-button-primary",
            'button[type="submit"]',
            "mat-dialog-actions button:last-child",
        ),
        "dialog",
        role="button",
        names=PHRASES["save"],
        icons=("save", "check", "done"),
        within="dialog",
        seed=('button[aria-label="Save"]', 'button:has-text("Save")', 'button:has-text("Done")'),
    ),
    "reset_button": Element(
        ('button[aria-label="Reset the function declarations"]',),
        "dialog",
        role="button",
        names=PHRASES["reset"],
        icons=("restart_alt", "refresh", "undo"),
        within="dialog",
    ),
    "close_button": Element(
        ('mat-dialog-container button[aria-label="Close"]',),
        "dialog",
        role="button",
        names=PHRASES["close"],
        icons=("close", "cancel", "clear"),
    ),
    "editor_error": Element(
        (
            "mat-dialog-container [role=alert]",
            "mat-dialog-container .error-message",
            "mat-dialog-container .error",
            "mat-dialog-container mat-error",
            "[role=dialog] [role=alert]",
        ),
        "sometimes",
    ),
    # A chat. All matches of the first selector that has any are used.
    "turn": Element(
        (
            "ms-chat-turn",
            "[data-turn-role]",
            ".chat-turn-container",
            '[id^="turn-"]',
            '[role="log"] > [role="article"]',
            '[role="article"]',
        ),
        "chat",
    ),
    "user_turn": Element(
        ('[data-turn-role="User" i]', ".chat-turn-container.user"), "chat", names=PHRASES["user"]
    ),
    "turn_content": Element(
        (".turn-content", "[data-turn-role]", '[role="article"] [role="document"]'), "sometimes"
    ),
    "text": Element(
        (
            "ms-cmark-node.cmark-node",
            "ms-cmark-node",
            "ms-text-chunk",
            ".cmark-node",
            ".markdown-node",
            '[class*="markdown"]',
        ),
        "chat",
    ),
    "code_block": Element(
        ("ms-code-block", "ms-prompt-chunk ms-code-block", '[class*="code-block"]'), "sometimes"
    ),
    "thought": Element(
        ("ms-thought-chunk", '[class*="thought-chunk"]'), "sometimes", names=PHRASES["thoughts"]
    ),
    "thought_body": Element(
        (
            ".mat-expansion-panel-body",
            "ms-thought-chunk > :not(mat-panel-title)",
            "details > :not(summary)",
        ),
        "sometimes",
    ),
    "call": Element(
        ("ms-function-call-chunk", 'ms-code-block[icon="function"]'),
        "sometimes",
        seed=("ms-function-call", '[data-test-id*="function-call"]', ".function-call-widget"),
    ),
    "call_name": Element(
        (
            "mat-panel-title span:not(.material-symbols-outlined)",
            "mat-panel-title",
            '[role="heading"]',
        ),
        "sometimes",
        seed=(".function-name", '[data-test-id="function-name"]'),
    ),
    "call_arguments": Element(
        ("pre code", "pre", "code"),
        "sometimes",
        seed=(".function-arguments", '[data-test-id="function-args"]'),
    ),
    "call_answer": Element(
        (
            'input[aria-label="Enter a function response"]',
            "form input:not([type=hidden])",
            "form textarea",
        ),
        "sometimes",
        names=PHRASES["answer"],
    ),
    "call_send": Element(("button[type=submit]", "button"), "sometimes"),
    "token_count": Element(
        (
            '[data-test-id="token-count"] .v3-token-count-value',
            ".v3-token-count-value",
            "ms-token-count",
        ),
        "sometimes",
    ),
    # Errors, and dialogs that cover the page.
    "toast": Element(("div.toast.error span.content-text", "div.toast.error"), "sometimes"),
    "warning": Element(("div.toast.warning span.content-text", "div.toast.warning"), "sometimes"),
    "callout": Element(
        ("ms-callout.error-callout .message", "ms-callout.error-callout"),
        "sometimes",
    ),
    "model_error": Element((".model-error", "ms-prompt-error"), "sometimes"),
    "overlay": Element(
        (".cdk-overlay-backdrop", '[class*="backdrop"]', '[aria-modal="true"]', "dialog[open]"),
        "sometimes",
    ),
    "sign_in": Element(
        (
            'input[type="email"][name="identifier"]',
            'form[action*="signin"]',
            'a[href*="accounts.google.com"]:has-text("Sign in")',
        ),
        "sometimes",
    ),
}


def selectors_of(name: str) -> tuple[str, ...]:
    """The selectors of an element, in order of preference."""
    return (*ELEMENTS[name].selectors, *ELEMENTS[name].seed)


def table() -> dict[str, Any]:
    """The table as the script in the page reads it."""
    return to_builtins(ELEMENTS)
