"""How the replica looks and behaves: everything about the page that a script does not say."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from msgspec import Struct

from windlass.testing.gate import Gate

__all__ = ["PARTS", "Page", "PageOptions", "Place", "Switch", "Variant", "page_of"]

Variant: TypeAlias = Literal["current", "older", "newer"]
Switch: TypeAlias = Literal["google_search", "url_context", "code_execution", "function_calling"]
Place: TypeAlias = Literal["page", "switch", "dialog", "save"]

PARTS = frozenset(
    {
        "function_calling_row",
        "function_calling_toggle",
        "edit_button",
        "dialog",
        "code_editor_tab",
        "declarations_textarea",
        "save_button",
        "reset_button",
        "close_button",
        "google_search_row",
        "google_search_toggle",
        "url_context_row",
        "url_context_toggle",
        "code_execution_row",
        "code_execution_toggle",
        "tools_panel",
        "turn",
        "turn_container",
        "turn_role",
        "turn_content",
        "text",
        "thoughts",
        "model_error",
        "call_chunk",
        "call_widget",
        "call_name",
        "call_arguments",
        "response_input",
        "response_send",
        "prompt",
        "run_button",
        "new_chat",
        "discard_button",
        "model_name",
        "model_selector",
        "model_row",
        "system_instructions",
        "temperature",
        "top_p",
        "max_output_tokens",
        "stop",
        "token_count",
        "toast",
        "callout",
    }
)
"""The parts of the page that can be broken."""


class PageOptions(TypedDict, total=False):
    """What a test may say about the page.

    `variant`: the markup. "older" has no `data-test-id` and no `data-turn-role`, a run button that
    is `disabled` and then says "Stop generating"; "newer" has other classes.
    `broken`: parts, out of `PARTS`, that no selector finds: they lose their tag and attributes.
    `models`: the models to choose from, the first one chosen; `without_function_calling`: those
    that have no function-calling row. `switched_on`: the switches that are on at the start;
    `stuck`: those that do not move when they are clicked.
    `tools_collapsed`, `visual_tab_first`: how the tools panel and the editor open.
    `overlay`: a dialog in front of the page, which can be closed or is there to stay.
    `late`: what waits for a gate, or some seconds: the page, a switch that was clicked, the
    editor's dialog, its saving.
    `resume`: whether the model goes on when all calls are answered or after each answer.
    `answered`: whether an answered field is disabled or just keeps its value.
    `new_chat_resets`: whether a new chat resets the tools. `visible_turns`: how many turns are on
    the screen, if not all: the others are empty. `token_counts`: whether the page shows them;
    `notices_stay`: whether an error stays beside the next request, and serves for it too.
    `signed_in`: whether the page is shown, or the way to sign in.
    """

    variant: Variant
    broken: Collection[str]
    models: Sequence[str]
    without_function_calling: Collection[str]
    switched_on: Collection[Switch]
    stuck: Collection[Switch]
    tools_collapsed: bool
    visual_tab_first: bool
    overlay: Literal["closable", "stuck"] | None
    late: Mapping[Place, Gate | float]
    resume: Literal["all", "each"]
    answered: Literal["disabled", "kept"]
    new_chat_resets: bool
    visible_turns: int | None
    token_counts: bool
    notices_stay: bool
    signed_in: bool


class Page(Struct, frozen=True, kw_only=True):
    """`PageOptions` with the defaults filled in."""

    variant: Variant = "current"
    broken: Collection[str] = ()
    models: Sequence[str] = ("gemini-2.5-flash", "gemini-2.5-pro")
    without_function_calling: Collection[str] = ()
    switched_on: Collection[Switch] = ()
    stuck: Collection[Switch] = ()
    tools_collapsed: bool = False
    visual_tab_first: bool = False
    overlay: Literal["closable", "stuck"] | None = None
    late: Mapping[Place, Gate | float] = {}
    resume: Literal["all", "each"] = "all"
    answered: Literal["disabled", "kept"] = "disabled"
    new_chat_resets: bool = False
    visible_turns: int | None = 6
    token_counts: bool = True
    notices_stay: bool = False
    signed_in: bool = True

    def to_dict(self) -> dict[str, Any]:
        """What the page's own code reads."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        listed = ("broken", "models", "without_function_calling", "switched_on", "stuck", "late")
        return {**plain, **{name: list(plain[name]) for name in listed}}


def page_of(options: PageOptions) -> Page:
    """The page with these options. Raises `ValueError` for a word that is none of them."""
    page = Page(**options)
    _check("variant", [page.variant], get_args(Variant))
    _check("broken", page.broken, sorted(PARTS))
    _check("switched_on", page.switched_on, get_args(Switch))
    _check("stuck", page.stuck, get_args(Switch))
    _check("late", page.late, get_args(Place))
    _check("without_function_calling", page.without_function_calling, page.models)
    if not page.models:
        raise ValueError("models: the page needs at least one")
    return page


def _check(option: str, words: Collection[str], known: Collection[str]) -> None:
    if isinstance(words, str):
        raise ValueError(f"{option}: a collection of words, not the string {words!r}")
    for word in words:
        if word not in known:
            raise ValueError(f"{option}: there is no {word!r}; known are {', '.join(known)}")
