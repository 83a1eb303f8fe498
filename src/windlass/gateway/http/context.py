"""One HTTP exchange: what is known of it, its body, its answer. Plain ASGI."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from windlass.errors import WindlassError
from windlass.gateway.config import KeyConfig
from windlass.gateway.http.errors import Refused
from windlass.jsontext import encode_json
from windlass.reply import Reply
from windlass.settings import Mode
from windlass.wires.errors import InvalidRequest, Problem

__all__ = [
    "ClientGone",
    "Exchange",
    "Header",
    "Receive",
    "Scope",
    "Send",
    "disconnected",
    "exchange_of",
    "json_response",
    "no_content",
    "query_number",
    "read_body",
    "respond",
    "respond_json",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")
BODY_SECONDS = 60.0
"""How long a client may take to send a body."""
LONGEST_NUMBER = 15
"""Digits of a number in a header or a query string."""


class ClientGone(WindlassError):
    """The client went away before it had its answer."""


class Exchange:
    """A request and what became of it, gathered for the log line and the metrics."""

    __slots__ = (
        "bytes_out",
        "client_gone",
        "headers",
        "id",
        "key",
        "mode",
        "model",
        "reply",
        "run_id",
        "started",
        "status",
        "stream",
    )

    def __init__(self, scope: Scope) -> None:
        self.id = f"req_{secrets.token_hex(12)}"
        self.started = time.perf_counter()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.key: KeyConfig | None = None
        self.model: str | None = None
        self.run_id: str | None = None
        self.mode: Mode | None = None
        self.reply: Reply | None = None
        self.stream = False
        self.status = 0
        """0 until an answer has begun."""
        self.bytes_out = 0
        self.client_gone = False

    @property
    def owner(self) -> str:
        """Whose runs and turns this request may see."""
        return self.key.name if self.key else ""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")


def exchange_of(scope: Scope) -> Exchange:
    return scope["windlass.exchange"]


async def disconnected(receive: Receive) -> None:
    """Ends when the client has gone away. Its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The JSON body. Raises `Refused` for one of another kind or size, and `ClientGone`."""
    headers = exchange_of(scope).headers
    # A form of a web page is no request, whatever is in its fields.
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        message = "The body must be sent with the header `Content-Type: application/json`."
        raise Refused(Problem(415, message, "unsupported_media_type"))
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > LONGEST_NUMBER or int(length) > most):
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _whole(receive, most)
    except TimeoutError:
        raise Refused(Problem(408, "The body did not come in time.", "body_timeout")) from None


async def _whole(receive: Receive, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return b"".join(pieces)


def _too_large(most: int) -> Refused:
    return Refused(Problem(413, f"The body is larger than {most} bytes.", "body_too_large"))


async def respond(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """A whole answer."""
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [*headers, length]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def no_content(send: Send) -> None:
    """An answer that says there is nothing to say: it has no length either."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def respond_json(
    send: Send, body: bytes, headers: Iterable[Header] = (), status: int = 200
) -> None:
    await respond(send, status, body, (JSON_TYPE, *headers))


def json_response(
    fields: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """The same for endpoints that return their answer."""
    return Response(encode_json(fields), status, headers, "application/json")


def query_number(text: str | None, name: str) -> int:
    """A count in a query string or a header; 0 if it is absent. Raises `Refused`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise InvalidRequest(f"{name}: must be a whole number, 0 or more", name)
    return int(text)
