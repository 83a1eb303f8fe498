"""A local replica of the Google AI Studio page that plays a script in a real browser.

`Changes` describes how a replica differs from the known page. Some steps exist only for the page;
other cases need no special step: `hang()` is an endless spinner, `slow(turn)` a late first token,
and `cut` and `disconnect` interrupt the answer. Write a malformed call as a normal call:
`call("get_wea")`, `call("default_api:f")`, `raw_call("f", "{<ctrl46>x...")`.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from msgspec import Struct

from windlass.content import FunctionCall, Opaque
from windlass.events import ModelEvent, PartReceived, TextDelta, ThoughtDelta, ToolCallEnded
from windlass.jsontext import compact_json
from windlass.testing.exchange import (
    Frames,
    PlannedResponse,
    Received,
    RequestRefused,
    ResponseWriter,
    Transport,
    json_bytes,
)
from windlass.testing.script import (
    Gate,
    Latch,
    Refuse,
    Script,
    Slow,
    StepDelays,
    Turn,
    events_of,
    refuse,
    slow,
    turn_of,
)
from windlass.testing.upstream import FakeUpstream

_INLINE = frozenset({"ms-cmark-node", "mat-panel-title", "mat-slide-toggle", "mat-chip"})


class Changes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Differences in markup, language and behaviour. The defaults are the known page.

    `tags`: whether components keep their names, have other names, or are plain `div` and `span`
    elements; `kept` are the components that keep theirs. `classes`: the same, or none at all.
    `dropped`: attributes that the page does not have. `words`: labels in another language.
    `shadowed`: components with a shadow root. `turn_ids`: whether turns have ids, none, or new ones
    whenever they are drawn again. `redraw`: when all turns are drawn again. `virtual`: what happens
    to turns that are not on the screen. `hydration`: the seconds in which the page only looks
    ready. `surprise`: a survey after each answer, a bar over the prompt, or one that asks for an
    agreement. `run_button`: how the button shows that the model writes; "same" means not at all.
    `switch`, `prompt`, `editor`: the kinds of these fields. `call`: how the widget of a call shows
    it. `roles`: whether turns have ARIA roles. `order`: where new turns are added. `new_chat`:
    whether the page is loaded again. `mirror`: whether there is a hidden copy of the chat. `notes`:
    words that are no part of the answer: for screen readers, beside the answer, or in it.
    """

    seed: int = 0
    tags: Literal["known", "renamed", "plain"] = "known"
    kept: tuple[str, ...] = ()
    classes: Literal["known", "renamed", "none"] = "known"
    dropped: tuple[str, ...] = ()
    words: dict[str, str] = {}
    shadow: Literal["none", "open", "closed"] = "none"
    shadowed: tuple[str, ...] = ()
    turn_ids: Literal["kept", "none", "new"] = "kept"
    redraw: Literal["never", "each", "end", "typing"] = "never"
    virtual: Literal["emptied", "removed"] = "emptied"
    hydration: float = 0.0
    surprise: Literal["none", "survey", "banner", "consent"] = "none"
    run_button: Literal["known", "icon", "separate", "busy", "same"] = "known"
    switch: Literal["aria", "checkbox", "pressed", "none"] = "aria"
    prompt: Literal["textarea", "editable"] = "textarea"
    editor: Literal["textarea", "editable"] = "textarea"
    call: Literal["known", "pretty", "labelled", "collapsed", "table"] = "known"
    roles: bool = False
    order: Literal["down", "up"] = "down"
    new_chat: Literal["stays", "reloads"] = "stays"
    mirror: bool = False
    notes: Literal["none", "hidden", "beside", "inside"] = "none"

    def to_dict(self) -> dict[str, Any]:
        """The changes as the page's JavaScript reads them."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        return {**plain, "tags": self._tags(), "classes": self._classes()}

    def renamed_in(self, style: str) -> str:
        """The page's style sheet, with the names of this page."""
        # Rules for components would apply to every `div`.
        for old, new in self._tags().items() if self.tags == "renamed" else ():
            style = re.sub(rf"(?<![\w.-]){old}(?![\w-])", new, style)
        for old, new in self._classes().items():
            if new:
                style = re.sub(rf"\.{old}(?![\w-])", f".{new}", style)
        return style

    def _tags(self) -> dict[str, str]:
        if self.tags == "known":
            return {}
        names = [name for name in known_names()[0] if name not in self.kept]
        if self.tags == "plain":
            return {name: "span" if name in _INLINE else "div" for name in names}
        return {name: f"x-{self._code(name)}" for name in names}

    def _classes(self) -> dict[str, str]:
        if self.classes == "known":
            return {}
        # What a page would call its icons belongs to the library that draws them.
        names = [name for name in known_names()[1] if name not in self.kept]
        return {name: "" if self.classes == "none" else f"c{self._code(name)}" for name in names}

    def _code(self, name: str) -> str:
        return hashlib.sha256(f"{self.seed} {name}".encode()).hexdigest()[:6]


@cache
def known_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The components and the classes of the known page."""
    code = "".join(path.read_text("utf-8") for path in sorted(_STATIC.glob("*.js")))
    tags = set(re.findall(r'"((?:ms|mat)-[a-z-]+)"', code)) - {"ms-"}
    lists = re.findall(r'class: [`"]([^`"$]+)', code)
    classes = {name for names in lists for name in names.split()}
    classes |= {"user", "model", "error", "warning", "toast", "mdc-switch", "chat-turn-container"}
    return tuple(sorted(tags)), tuple(sorted(classes))


Variant: TypeAlias = Literal["current", "older", "newer"]
Switch: TypeAlias = Literal["google_search", "url_context", "code_execution", "function_calling"]
Place: TypeAlias = Literal["page", "switch", "dialog", "save", "upload"]

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
        "attach_button",
        "file_input",
    }
)
"""The parts of the page that the option `broken` can break."""


class PageOptions(TypedDict, total=False):
    """The options of the replica page.

    `variant`: the markup. "older" has no `data-test-id` and no `data-turn-role`, and its run button
    is first `disabled` and then labelled "Stop generating"; "newer" has other classes.
    `broken`: names from `PARTS`. These parts lose their tag and attributes, so no selector matches.
    `models`: the available models; the first one is selected. `without_function_calling`: models
    without a function-calling row. `switched_on`: the switches that are on at the start. `stuck`:
    switches that do not react to clicks.
    `tools_collapsed`, `visual_tab_first`: how the tools panel and the editor open.
    `overlay`: a dialog in front of the page; "stuck" cannot be closed.
    `late`: what waits for a gate or for some seconds: the page, a clicked switch, the editor's
    dialog, saving in the editor, or the upload of an image.
    `resume`: whether the model continues when all calls are answered or after each answer.
    `answered`: whether an answered field is disabled or keeps its value.
    `new_chat_resets`: whether a new chat resets the tools. `visible_turns`: the number of turns on
    the screen (None: all); the others are empty. `token_counts`: whether the page shows them.
    `notices_stay`: whether an error stays visible during the next request and also reports its
    error.
    `signed_in`: whether the page is shown, or the sign-in page. `refuses_images`: whether uploads
    fail.
    `changes`: differences in markup, language and behaviour; `variant_of(seed)` makes some.
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
    refuses_images: bool
    changes: Changes


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
    refuses_images: bool = False
    changes: Changes = Changes()

    def to_dict(self) -> dict[str, Any]:
        """The options as the page's JavaScript reads them."""
        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        listed = ("broken", "models", "without_function_calling", "switched_on", "stuck", "late")
        changes = self.changes.to_dict()
        return {**plain, **{name: list(plain[name]) for name in listed}, "changes": changes}


def page_of(options: PageOptions) -> Page:
    """The page with these options. Raises `ValueError` for an unknown value."""
    page = Page(**options)
    _check("variant", [page.variant], get_args(Variant))
    _check("broken", page.broken, sorted(PARTS))
    _check("switched_on", page.switched_on, get_args(Switch))
    _check("stuck", page.stuck, get_args(Switch))
    _check("late", page.late, get_args(Place))
    _check("without_function_calling", page.without_function_calling, page.models)
    if not page.models:
        raise ValueError("models: at least one model is required")
    return page


def _check(option: str, words: Collection[str], known: Collection[str]) -> None:
    if isinstance(words, str):
        raise ValueError(f"{option}: must be a collection of strings, not the string {words!r}")
    for word in words:
        if word not in known:
            raise ValueError(f"{option}: unknown value {word!r}; supported: {', '.join(known)}")


_STATIC = Path(__file__).parent / "static"
_MODULES = (
    *("changes", "markup", "markdown", "server", "state", "notices", "overlay", "schema", "chunks"),
    *("turns", "editor", "tools", "settings", "generation", "upload", "prompt", "app"),
)
"""In dependency order: a module comes after the modules that it imports."""
_CONTENT_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_POLICY = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; require-trusted-types-for 'script'"
)
_NEW_CHAT = "/prompts/new_chat"
_SIGN_IN = "/v3/signin/identifier"


class FakeAIStudio(FakeUpstream):
    """The AI Studio page, driven by a script, at `url`; `?model=` selects the model.

    `requests` are the page's requests to its model. Their `body` has `model`, `prompt` (None when
    the model continues after answered calls), `answers` (`name`, `arguments` and `response` as
    typed), `switches`, the saved `declarations`, `system`, `settings`, and the whole chat as
    Gemini's `contents`, which `last_prompt` and `tool_results` can read. `saves` are the
    declarations of each successful Save in the editor. `stopped` is set when Stop is pressed.
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

    def change(self, **options: Unpack[PageOptions]) -> None:
        """Replaces the options; pages that are loaded from now on have them."""
        self._page = page_of(options)
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

    def _respond(self, received: Received) -> PlannedResponse:
        if received.method != "GET":
            return super()._respond(received)
        match received.path.split("/")[1:]:
            case ["prompts", _] if self._page.signed_in:
                return _file("index.html")
            case ["prompts", _]:
                return PlannedResponse(
                    [], StepDelays([]), status=302, headers={"Location": _SIGN_IN}, length=0
                )
            case ["v3", "signin", _]:
                return _file("signin.html")
            case ["static", "page.js"]:
                options = json_bytes(self._page.to_dict())
                return _content(b"const options = " + options + b";\n" + _code(), ".js")
            case ["static", "page.css"]:
                style = (_STATIC / "page.css").read_text("utf-8")
                return _content(self._page.changes.renamed_in(style).encode(), ".css")
            case ["static", name] if (_STATIC / name).is_file():
                return _file(name)
            case ["replica", "gate", place] if place in self._waits:
                return PlannedResponse([b"{}"], StepDelays([self._waits[place]]), length=2)
            case _:
                return self._error_response(RequestRefused(404, f"Not found: {received.path}"))

    def _is_model_request(self, received: Received) -> bool:
        return received.path == "/replica/generate"

    def _accepted(self, received: Received) -> ResponseWriter | Any:
        match received.path:
            case "/replica/generate":
                return _PageWriter()
            case "/replica/saved":
                self.saves.append(received.body)
            case "/replica/stopped":
                self.stopped.set()
            case path:
                raise RequestRefused(404, f"Not found: {path}")
        return {}

    def _error_body(self, error: Refuse | RequestRefused) -> Any:
        where = "callout" if error.status == 429 else "turn" if error.status >= 500 else "toast"
        return {"type": "error", "where": where, "message": error.message}


class _PageWriter(Struct, frozen=True):
    """The page always reads a stream of page events."""

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
    """All modules joined into one script, which loads in half the time. Their names are unique."""
    code = "\n".join((_STATIC / f"{name}.js").read_text("utf-8") for name in _MODULES)
    return re.sub(r"^import .+;\n|^export ", "", code, flags=re.MULTILINE).encode()


def _file(name: str) -> PlannedResponse:
    path = _STATIC / name
    return _content(path.read_bytes(), path.suffix)


def _content(data: bytes, suffix: str) -> PlannedResponse:
    headers = {"Content-Type": f"{_CONTENT_TYPES[suffix]}; charset=utf-8"}
    return PlannedResponse([data], StepDelays([]), headers=headers, length=len(data))


PageEvent: TypeAlias = dict[str, Any]
"""An event in the page; `type` is its kind."""

_IDLE: PageEvent = {"type": "idle"}


def late_calls(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn; its calls appear only after the run button is idle and the step has waited."""
    events = page_events(turn)
    before = [event for event in events if event["type"] != "call"]
    calls = [event for event in events if event["type"] == "call"]
    played = _playing([*before, _IDLE, *calls], turn)
    return slow(played, gate, seconds=seconds, after=len(before) + 1)


def filled_late(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn; its calls are empty when the run button becomes idle, and filled after a wait."""
    events = page_events(turn)
    empty = [event | {"arguments": ""} if event["type"] == "call" else event for event in events]
    written = [event["arguments"] for event in events if event["type"] == "call"]
    filled = [{"type": "arguments", "index": i, "text": text} for i, text in enumerate(written)]
    played = _playing([*empty, _IDLE, *filled], turn)
    return slow(played, gate, seconds=seconds, after=len(empty) + 1)


def rendered_twice(turn: Turn) -> Turn:
    """The turn; the page replaces the element of each call in the next animation frame."""
    events: list[PageEvent] = []
    calls = 0
    for event in page_events(turn):
        events.append(event)
        if event["type"] == "call":
            events.append({"type": "call_again", "index": calls})
            calls += 1
    return _playing(events, turn)


def toast(
    message: str, level: Literal["warning", "error"] = "warning", *, turn: Turn | str = ""
) -> Turn:
    """The turn, after a toast."""
    said = turn_of(turn)
    shown = {"type": "toast", "message": message, "level": level}
    return _playing([shown, *page_events(said)], said)


def quota_callout(message: str = "You have reached your quota. Try again later.") -> Refuse:
    """The callout for an exhausted quota."""
    return refuse(429, message)


def model_error(message: str = "An internal error has occurred.") -> Refuse:
    """An error instead of the model's turn."""
    return refuse(500, message)


def written_call(name: str, /, **arguments: Any) -> Turn:
    """A call that the model writes as text although the page supports function calling."""
    return Turn(text=f"Request function call: {name}\nParameters:\n{compact_json(arguments)}")


def page_events(turn: Turn) -> list[PageEvent]:
    """The page events of the turn. A call is one event."""
    return [shown for event in events_of(turn) if (shown := _shown(event)) is not None]


def _shown(event: ModelEvent) -> PageEvent | None:
    match event:
        case TextDelta(text=text):
            return {"type": "text", "text": text}
        case ThoughtDelta(text=text):
            return {"type": "thought", "text": text}
        case ToolCallEnded(call=FunctionCall(name=name, json=json)):
            return {"type": "call", "name": name, "arguments": json}
        case PartReceived(part=Opaque(provider="aistudio", data=data)):
            return data
        case PartReceived(part=part):
            raise ValueError(f"the page cannot show {part!r}")
        case _:
            return None


def _playing(events: list[PageEvent], turn: Turn) -> Turn:
    parts = tuple(Opaque("aistudio", event) for event in events)
    return Turn(parts=parts, usage=turn.usage, pieces=turn.pieces)
