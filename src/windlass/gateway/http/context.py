"""One HTTP request and its answer: context, body and responses. Plain ASGI."""

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from starlette.responses import Response

from windlass.errors import WindlassError
from windlass.gateway.config import KeyConfig
from windlass.gateway.http.errors import Refused
from windlass.jsontext import LARGE, encode_any_json, encode_json, is_larger, offloaded
from windlass.reply import Reply
from windlass.settings import Mode
from windlass.time_limit import TimeUp, within
from windlass.wires.errors import InvalidRequest, Problem

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

JSON_TYPE: Header = (b"content-type", b"application/json")
BODY_SECONDS = 60.0
"""How long a client may take to send a body."""
BUSY = "windlass.busy"
"""The field of a WebSocket's scope that is true while a response is in flight."""
DIRECT = "windlass.direct"
"""The field of a scope that is true if any code of the event loop may begin a call of its `send`,
and a task may finish it. Other servers, and middleware, can require the request's own task."""
MAX_DIGITS = 15
"""The longest number that is read from a header or a query string."""


class ClientGone(WindlassError):
    """The client disconnected before it received its answer."""


class Exchange:
    """A request and its outcome, recorded for the access log and the metrics."""

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
        """0 until the response starts."""
        self.bytes_out = 0
        self.client_gone = False

    @property
    def owner(self) -> str:
        """The name of the request's key: it may see the runs and turns of this key only."""
        return self.key.name if self.key else ""

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")


def exchange_of(scope: Scope) -> Exchange:
    return scope["windlass.exchange"]


async def disconnected(receive: Receive) -> None:
    """Returns when the client disconnects. Call it only after the body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Reads the JSON body.

    Raises `Refused` for another content type, for more than `limit` bytes and for a slow client,
    and `ClientGone` if the client disconnects.
    """
    headers = exchange_of(scope).headers
    # A web page can post a form to any host without asking: no form is accepted.
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind and kind != b"application/json" and not kind.endswith(b"+json"):
        message = "The body must be sent with the header `Content-Type: application/json`."
        raise Refused(Problem(415, message, "unsupported_media_type"))
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > MAX_DIGITS or int(length) > limit):
        raise _too_large(limit)
    try:
        return await within(BODY_SECONDS, _receive_all(receive, limit))
    except TimeUp:
        raise Refused(Problem(408, "The body did not arrive in time.", "body_timeout")) from None


async def _receive_all(receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(pieces)


def _too_large(limit: int) -> Refused:
    return Refused(Problem(413, f"The body is larger than {limit} bytes.", "body_too_large"))


async def respond(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """Sends a complete response."""
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [*headers, length]}
    await send(start)
    await send({"type": "http.response.body", "body": body})


async def no_content(send: Send) -> None:
    """Sends a 204. It has no `Content-Length`, as HTTP requires."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def respond_json(
    send: Send, body: bytes, headers: Iterable[Header] = (), status: int = 200
) -> None:
    await respond(send, status, body, (JSON_TYPE, *headers))


def json_response(
    fields: Mapping[str, object], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A JSON response, for endpoints that return their response."""
    return Response(encode_json(fields), status, headers, "application/json")


async def any_json_response(
    fields: Mapping[str, object], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A JSON response of any size; a large one is encoded off the event loop."""
    if not is_larger(fields, LARGE):
        return json_response(fields, status, headers)
    body = await offloaded(encode_any_json, fields)
    return Response(body, status, headers, "application/json")


def query_number(text: str | None, name: str) -> int:
    """A number in a query string or a header; 0 if it is missing. Raises `InvalidRequest`."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InvalidRequest(f"{name}: must be a whole number, 0 or more", name)
    return int(text)
