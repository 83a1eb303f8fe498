"""A local replica of the Google AI Studio page, which plays a script in a real browser."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Unpack

from msgspec import Struct

from windlass.testing.aistudio.options import Page, PageOptions, page_of
from windlass.testing.aistudio.steps import page_events
from windlass.testing.exchange import Answer, Exchange, Frames, Received, Refused, json_bytes
from windlass.testing.fake import FakeUpstream
from windlass.testing.gate import Gate, Latch
from windlass.testing.pace import Pace
from windlass.testing.script import Refuse, Script, Slow, Turn
from windlass.testing.sse import Transport

__all__ = ["FakeAIStudio"]

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
