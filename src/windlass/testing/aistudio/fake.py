"""A local replica of the Google AI Studio page, which plays a script in a real browser."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from msgspec import Struct

from windlass.testing.aistudio.steps import page_events
from windlass.testing.exchange import (
    Answer,
    Exchange,
    Frames,
    Received,
    Refused,
    Transport,
    json_bytes,
)
from windlass.testing.gate import Gate, Latch
from windlass.testing.script import Pace, Refuse, Script, Slow, Turn
from windlass.testing.upstream import FakeUpstream

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


_STATIC = Path(__file__).parent / "static"
_MODULES = (
    *("markup", "server", "state", "notices", "overlay", "schema", "chunks", "turns", "editor"),
    *("tools", "settings", "generation", "prompt", "app"),
)
"""Each after those that it imports."""
_CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY = "default-src 'self'; base-uri 'none'; require-trusted-types-for 'script'"
_NEW_CHAT = "/prompts/new_chat"
_SIGN_IN = "/v3/signin/identifier"


class FakeAIStudio(FakeUpstream):
    """The AI Studio page from a script, at `url`; `?model=` chooses the model.

    `requests` are what the page asked of its model. Their `body` has `model`, `prompt` (None when
    answers to calls made it go on), `answers` (`name`, `arguments` and `response` as typed),
    `switches`, `declarations` as they were saved, `system`, `settings`, and the whole chat as
    Gemini's `contents`, so that `last_prompt` and `tool_results` read it. `saves` are the
    declarations of each Save that the editor took, and `stopped` is set once Stop was pressed.
    The options are in `PageOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        port: int = 0,
        **options: Unpack[PageOptions],
    ) -> None:
        super().__init__(script, None, port, Transport())
        self.saves: list[list[dict[str, Any]]] = []
        self.stopped = Latch()
        self._page: Page = page_of(options)
        self._waits = {str(place): _wait(held) for place, held in self._page.late.items()}

    @property
    def url(self) -> str:
        """The address of a new chat."""
        return self.root_url + _NEW_CHAT

    @property
    def base_url(self) -> str:
        return self.url

    def _headers(self) -> dict[str, str]:
        return {"Content-Security-Policy": _POLICY}

    def _answer(self, received: Received) -> Answer:
        if received.method != "GET":
            return super()._answer(received)
        match received.path.split("/")[1:]:
            case ["prompts", _] if self._page.signed_in:
                return _file("index.html")
            case ["prompts", _]:
                return Answer([], Pace([]), status=302, headers={"Location": _SIGN_IN}, length=0)
            case ["v3", "signin", _]:
                return _file("signin.html")
            case ["static", "page.js"]:
                options = json_bytes(self._page.to_dict())
                return _content(b"const options = " + options + b";\n" + _code(), ".js")
            case ["static", name] if (_STATIC / name).is_file():
                return _file(name)
            case ["replica", "gate", place] if place in self._waits:
                return Answer([b"{}"], Pace([self._waits[place]]), length=2)
            case _:
                return self._error_answer(Refused(404, f"there is no {received.path}"))

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/replica/generate"

    def _accepted(self, received: Received) -> Exchange | Any:
        match received.path:
            case "/replica/generate":
                return _PageExchange()
            case "/replica/saved":
                self.saves.append(received.body)
            case "/replica/stopped":
                self.stopped.set()
            case path:
                raise Refused(404, f"there is no {path}")
        return {}

    def _error_body(self, error: Refuse | Refused) -> Any:
        where = "callout" if error.status == 429 else "turn" if error.status >= 500 else "toast"
        return {"type": "error", "where": where, "message": error.message}


class _PageExchange(Struct, frozen=True):
    """The page always reads a stream, of the events that it plays."""

    streams: bool = True

    def body(self, turn: Turn) -> bytes:
        return json_bytes(page_events(turn))

    def frames(self, turn: Turn) -> Frames:
        usage = turn.usage
        counts = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "total": usage.total_tokens,
        }
        pieces = [json_bytes(event) for event in page_events(turn)]
        return Frames([], pieces, [json_bytes({"type": "end", "usage": counts})])


def _wait(held: Gate | float) -> Slow:
    if isinstance(held, Gate):
        return Slow(Turn(), held, seconds=0.0, after=0)
    return Slow(Turn(), None, seconds=held, after=0)


@cache
def _code() -> bytes:
    """The page's modules as one, which a browser loads in half the time. Their names are unique."""
    code = "\n".join((_STATIC / f"{name}.js").read_text("utf-8") for name in _MODULES)
    return re.sub(r"^import .+;\n|^export ", "", code, flags=re.MULTILINE).encode()


def _file(name: str) -> Answer:
    path = _STATIC / name
    return _content(path.read_bytes(), path.suffix)


def _content(data: bytes, suffix: str) -> Answer:
    headers = {"Content-Type": f"{_CONTENT_TYPES[suffix]}; charset=utf-8"}
    return Answer([data], Pace([]), headers=headers, length=len(data))
