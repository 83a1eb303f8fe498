"""A complete wire in one file: questions and answers in lines of text.

It shows what a new protocol needs: a reader of requests, a writer of answers, and a route.
"""

import json
from collections.abc import Callable, Iterable

from starlette.routing import Route

from windlass.content import Message
from windlass.events import RunEvent, TextDelta, ToolRunEnded
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Receive, Scope, Send
from windlass.gateway.routes.wire import Wire, answer, read_run_request
from windlass.gateway.runs.run import GatewayRun
from windlass.reply import Reply
from windlass.request import RequestLimits, RunRequest
from windlass.wires.body import fields_of
from windlass.wires.errors import InvalidRequest, Problem

PATH = "/lines"


def read_request(body: bytes, limits: RequestLimits) -> RunRequest:
    """Reads `{"to": MODEL, "lines": [TEXT, ...], "follow": BOOL}`."""
    fields = fields_of(body, limits.max_json_depth)
    lines = fields.value("lines", list)
    if not lines:
        raise InvalidRequest("lines: must have at least one line", "lines")
    return RunRequest(
        wire="lines",
        model=fields.value("to", str) or "",
        messages=(Message.user("\n".join(map(str, lines))),),
        live=fields.value("follow", bool) or False,
        answer={"loud": fields.value("loud", bool) or False},
        size=len(body),
    )


class LinesStream:
    """Writes a line for each text and each result."""

    heartbeat = b"...\n"
    paused = False

    def __init__(self, loud: bool) -> None:
        self._loud = loud

    def begin(self) -> bytes:
        return b"(begin)\n"

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        return b"".join(map(self._line, events))

    def _line(self, event: RunEvent) -> bytes:
        match event:
            case TextDelta(text=text):
                return f"> {_said(text, loud=self._loud)}\n".encode()
            case ToolRunEnded(response=response):
                return f"# {response.name}: {json.dumps(response.response)}\n".encode()
            case _:
                return b""

    def end(self, reply: Reply | None) -> bytes:
        assert reply is not None
        return f"(end: {reply.stop_reason})\n".encode()

    def fail(self, problem: Problem) -> bytes:
        return error_body(problem)


class LinesAnswer:
    def whole(self, run: GatewayRun) -> bytes:
        loud = run.origin.answer["loud"]
        return json.dumps({"lines": _said(run.reply.text, loud=loud).splitlines()}).encode()

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        """Does nothing: this wire has no approvals."""

    def stream(self, run: GatewayRun) -> LinesStream:
        return LinesStream(run.origin.answer["loud"])


def _said(text: str, *, loud: bool) -> str:
    return text.upper() if loud else text


def error_body(problem: Problem) -> bytes:
    return f"! {problem.status} {problem.message}\n".encode()


class Lines:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = await read_run_request(self._gateway, scope, receive, read_request)
        await answer(self._gateway, request, scope, receive, send, LinesAnswer())


def routes(gateway: Gateway) -> list[Route]:
    return [Route(PATH, Lines(gateway), methods=["POST"])]


WIRE = Wire(routes, (PATH,), error_body)
