"""The table of all selectors. No other module knows the page's markup.

The selectors of an element are tried in order: the test id, the accessible name, the component, the
text. When the page changes, `windlass aistudio doctor` names the elements that are missing; update
their rows here.
"""

from typing import Literal

from msgspec import Struct

VERSION = "2026-11"
"""When the table was last checked against the page."""

Shown = Literal["always", "settings", "dialog", "chat", "sometimes"]
"""Where an element is visible: on every page, in the tools panel, in the editor of function
declarations, in a chat with turns, or only in some situations."""


class Element(Struct, frozen=True):
    """One element of the page. The first selector that matches is used."""

    selectors: tuple[str, ...]
    shown: Shown = "always"


ELEMENTS: dict[str, Element] = {
    # Writing and running a prompt.
    "prompt": Element(
        (
            'ms-prompt-box textarea[aria-label="Enter a prompt"]',
            'textarea[aria-label="Enter a prompt"]',
            "ms-prompt-box textarea",
            "ms-autosize-textarea textarea",
            "footer textarea",
        )
    ),
    "run_button": Element(
        (
            "footer ms-run-button button",
            'footer button[aria-label="Run"]',
            "footer run-button button",
        )
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
            "footer ms-run-button button:has(.stoppable-spinner)",
        ),
        "sometimes",
    ),
    "model_name": Element(
        ('[data-test-id="model-name"]', "ms-model-selector .model-name", "ms-model-selector .title")
    ),
    "new_chat": Element(
        (
            '[data-test-id="new-chat-button"]',
            'button[aria-label="New chat"]',
            'a[aria-label="New chat"]',
            'button:has-text("New chat")',
        )
    ),
    "discard": Element(
        (
            'mat-dialog-container button[aria-label="Discard and continue"]',
            'mat-dialog-container button:has-text("Discard and continue")',
        ),
        "sometimes",
    ),
    # The tools panel.
    "tools_panel": Element(
        (
            'button[aria-label="Expand or collapse tools"]',
            'ms-settings-group button:has-text("Tools")',
        )
    ),
    "function_row": Element(
        (
            '[data-test-id="functionCallingTooltip"]',
            'mat-slide-toggle:has(button[aria-label="Function calling" i])',
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
            'mat-slide-toggle:has-text("Function calling") button[role="switch"]',
        ),
        "settings",
    ),
    "edit_button": Element(
        (
            'button[aria-label="Edit function declarations"]',
            "button.edit-function-declarations-button",
            '[data-test-id="functionCallingTooltip"] button:has-text("Edit")',
        ),
        "settings",
    ),
    "search_toggle": Element(
        (
            '[data-test-id="searchAsAToolTooltip"] button[role="switch"]',
            'button[role="switch"][aria-label="Grounding with Google Search" i]',
            'mat-slide-toggle:has-text("Google Search") button[role="switch"]',
        ),
        "settings",
    ),
    "url_toggle": Element(
        (
            '[data-test-id="browseAsAToolTooltip"] button[role="switch"]',
            'button[aria-label="Browse the url context" i]',
            'mat-slide-toggle:has-text("URL context") button[role="switch"]',
        ),
        "settings",
    ),
    "code_toggle": Element(
        (
            '[data-test-id="codeExecutionTooltip"] button[role="switch"]',
            'button[role="switch"][aria-label="Code execution" i]',
            'mat-slide-toggle:has-text("Code execution") button[role="switch"]',
        ),
        "settings",
    ),
    "system": Element(
        ('textarea[aria-label="System instructions"]', "ms-system-instructions textarea"),
        "sometimes",
    ),
    "max_tokens": Element(
        (
            'input[aria-label="Maximum output tokens"]',
            '[data-test-id="maxOutputTokensContainer"] input',
        ),
        "sometimes",
    ),
    "temperature": Element(
        (
            '[data-test-id="temperatureSliderContainer"] input[type="number"]',
            'input[type="number"][aria-label="Temperature" i]',
            'ms-slider input[type="number"][max="2"]',
        ),
        "sometimes",
    ),
    "top_p": Element(
        (
            '[data-test-id="topPSliderContainer"] input[type="number"]',
            'input[type="number"][aria-label="Top P" i]',
            'ms-slider input[type="number"][max="1"]',
        ),
        "sometimes",
    ),
    # The editor of function declarations.
    "dialog": Element(
        (
            "mat-dialog-container ms-edit-function-declarations-dialog",
            'mat-dialog-container:has(h2:has-text("Function declarations"))',
        ),
        "dialog",
    ),
    "code_tab": Element(
        (
            'mat-dialog-container ms-tab-group button[role="tab"]:has-text("Code Editor")',
            'mat-dialog-container [role="tab"]:has-text("Code Editor")',
        ),
        "dialog",
    ),
    "editor": Element(
        (
            'mat-dialog-container ms-text-editor textarea[placeholder^="Press Tab"]',
            "mat-dialog-container ms-text-editor textarea",
            "mat-dialog-container textarea",
        ),
        "dialog",
    ),
    "save_button": Element(
        (
            'button[aria-label="Save the current function declarations"]',
            'mat-dialog-container button:has-text("Save")',
        ),
        "dialog",
    ),
    "reset_button": Element(
        (
            'button[aria-label="Reset the function declarations"]',
            'mat-dialog-container button:has-text("Reset")',
        ),
        "dialog",
    ),
    "close_button": Element(
        (
            'mat-dialog-container button[aria-label="Close"]',
            'mat-dialog-container button:has-text("Close")',
        ),
        "dialog",
    ),
    "editor_error": Element(
        (
            "mat-dialog-container [role=alert]",
            "mat-dialog-container .error-message",
            "mat-dialog-container .error",
            "mat-dialog-container mat-error",
        ),
        "sometimes",
    ),
    # A chat. The observer reads these in the page itself: plain CSS only.
    "turn": Element(("ms-chat-turn", "[data-turn-role]"), "chat"),
    "user_turn": Element(('[data-turn-role="User"]', ".chat-turn-container.user"), "chat"),
    "chunk": Element(("ms-prompt-chunk",), "chat"),
    "text": Element(("ms-cmark-node.cmark-node", "ms-cmark-node", "ms-text-chunk"), "chat"),
    "thought": Element(
        (
            "ms-thought-chunk .mat-expansion-panel-body",
            "ms-thought-chunk > :not(mat-panel-title)",
            "ms-thought-chunk",
        ),
        "sometimes",
    ),
    "call": Element(("ms-function-call-chunk", 'ms-code-block[icon="function"]'), "sometimes"),
    "call_name": Element(
        ("mat-panel-title span:not(.material-symbols-outlined)", "mat-panel-title"), "sometimes"
    ),
    "call_arguments": Element(("pre code", "pre", "code"), "sometimes"),
    "call_answer": Element(
        (
            'input[aria-label="Enter a function response"]',
            "form input:not([type=hidden])",
        ),
        "sometimes",
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
        ("ms-callout.error-callout .message", "ms-callout.error-callout"), "sometimes"
    ),
    "model_error": Element((".model-error", "ms-prompt-error"), "sometimes"),
    "icon": Element((".material-symbols-outlined", "mat-icon"), "sometimes"),
    "overlay": Element((".cdk-overlay-backdrop",), "sometimes"),
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
    return ELEMENTS[name].selectors
