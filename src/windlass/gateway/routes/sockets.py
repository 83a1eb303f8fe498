"""The WebSocket at `/v1/responses`: a frame has one request, or one event of its response.

Each request is handled as over HTTP, with authentication, limits, metrics and the access log.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import BUSY, JSON_TYPE, Receive, Scope, Send
from windlass.gateway.http.errors import problem_headers
from windlass.gateway.routes.response_requests import SOCKET_MEMORY, SocketMemory
from windlass.gateway.routes.responses import PATH
from windlass.wires.errors import Problem, error_body, error_fields
from windlass.wires.responses.response import error_frame, payloads

GOING_AWAY = 1012
"""The close code of a restarting service."""
POLICY_VIOLATION = 1008
DENIAL = "websocket.http.response"
FAILED = b'{"type":"response.failed"'
"""The start of the last event of a failed response."""

Answer: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Answers one HTTP request."""

NO_JSON = Problem(400, "A frame must contain a JSON object.", "invalid_json")
NO_TEXT = Problem(400, "Send requests as text frames.", "invalid_frame")
IN_FLIGHT = Problem(
    400,
    "A response is still in progress: wait for its last event before the next request.",
    "response_in_progress",
)


def _unknown_type(kind: object) -> Problem:
    message = f"type: must be 'response.create', not {str(kind)[:100]!r}"
    return Problem(400, message, "unknown_type", "type")


async def deny(scope: Scope, send: Send, problem: Problem) -> None:
    """Refuses the upgrade with the status and the body of an HTTP error, if the server can."""
    if DENIAL not in scope.get("extensions", {}):
        return await send({"type": "websocket.close", "code": POLICY_VIOLATION})
    headers = [JSON_TYPE, *problem_headers(problem)]
    await send({"type": f"{DENIAL}.start", "status": problem.status, "headers": headers})
    return await send({"type": f"{DENIAL}.body", "body": error_body(problem)})


class ResponseSocket:
    """One accepted connection. It has at most one response in flight."""

    def __init__(
        self, gateway: Gateway, answer: Answer, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._gateway, self._answer = gateway, answer
        self._scope, self._receive, self._send = scope, receive, send
        self._memory = SocketMemory()
        self._disconnected = asyncio.Event()

    async def serve(self) -> None:
        """Answers the requests of the connection until it closes."""
        await self._send({"type": "websocket.accept"})
        responding: asyncio.Task[None] | None = None
        try:
            while (message := await self._receive())["type"] != "websocket.disconnect":
                if message["type"] != "websocket.receive":
                    continue
                if responding is not None and not responding.done():
                    await self._send_frame(_refusal(IN_FLIGHT))
                    continue
                self._scope[BUSY] = True
                responding = asyncio.create_task(self._respond(message))
        finally:
            self._disconnected.set()  # stops the run, as over HTTP
            if responding is not None:
                await asyncio.wait([responding])

    async def _respond(self, message: Any) -> None:
        try:
            body = _read_frame(message)
            if isinstance(body, Problem):
                await self._send_frame(_refusal(body))
            else:
                await self._answer_request(body)
        finally:
            self._scope[BUSY] = False
            if self._gateway.draining and not self._disconnected.is_set():
                await self._deliver({"type": "websocket.close", "code": GOING_AWAY})

    async def _answer_request(self, fields: dict[str, Raw]) -> None:
        previous = _text(fields.get("previous_response_id"))
        body = msgspec.json.encode({**fields, "stream": True, "background": False})
        frames = _FrameSender(self._send_frame)
        is_read = False

        async def receive() -> dict[str, Any]:
            nonlocal is_read
            if not is_read:
                is_read = True
                return {"type": "http.request", "body": body, "more_body": False}
            await self._disconnected.wait()
            return {"type": "http.disconnect"}

        await self._answer(self._http_scope(), receive, frames.send)
        if frames.failed and previous is not None:
            self._memory.evict(previous)

    def _http_scope(self) -> Scope:
        skipped = (b"content-length", b"content-type")
        headers = [(name, value) for name, value in self._scope["headers"] if name not in skipped]
        return {
            **self._scope,
            "type": "http",
            "method": "POST",
            "headers": headers,
            SOCKET_MEMORY: self._memory,
        }

    async def _send_frame(self, data: bytes) -> None:
        await self._deliver({"type": "websocket.send", "text": data.decode()})

    async def _deliver(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except OSError:  # the client has disconnected
            self._disconnected.set()


class _FrameSender:
    """Turns the HTTP response of one request into frames: one for each event, or for the error."""

    def __init__(self, send_frame: Callable[[bytes], Awaitable[None]]) -> None:
        self._send_frame = send_frame
        self._status = 0
        self._error = b""
        self.failed = False
        """Whether the request was refused, or its response failed."""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.failed = self._status != 200
        elif self._status != 200:
            self._error += message.get("body", b"")
            if not message.get("more_body"):
                error = msgspec.json.decode(self._error)["error"]
                await self._send_frame(error_frame(self._status, error))
        else:
            for event in payloads(message.get("body", b"")):
                self.failed = self.failed or event.startswith(FAILED)
                await self._send_frame(event)


def _refusal(problem: Problem) -> bytes:
    return error_frame(problem.status, error_fields(problem))


def _read_frame(message: Any) -> dict[str, Raw] | Problem:
    """The fields of a `response.create` frame, without those that only HTTP has."""
    text = message.get("text")
    if text is None:
        return NO_TEXT
    try:
        fields = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return NO_JSON
    kind = _text(fields.pop("type", None))
    return fields if kind == "response.create" else _unknown_type(kind)


_decoder = msgspec.json.Decoder(dict[str, Raw])


def _text(value: Raw | None) -> str | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def is_socket_path(scope: Scope) -> bool:
    return scope["path"].removeprefix(scope.get("root_path", "")) == PATH
