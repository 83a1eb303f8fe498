"""Sends requests to the application without sockets, so that a fuzz test can send many."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from windlass.gateway import App

JSON_TYPE = (b"content-type", b"application/json")
SECONDS = 60


class Answer(NamedTuple):
    """The response of the application."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """Returns the error. It must have OpenAI's form."""
        assert self.headers["content-type"] == "application/json"
        assert self.json.keys() == {"error"}
        error = self.json["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        assert isinstance(error["param"], str | None)
        assert isinstance(error["code"], str | None)
        return error


async def request(
    app: App,
    method: str,
    path: str,
    *,
    headers: Iterable[tuple[bytes, bytes]] = (),
    pieces: Iterable[bytes] = (b"",),
    ends: bool = True,
    leaves: asyncio.Event | None = None,
    root_path: str = "",
) -> Answer:
    """The answer to one request, whose body arrives in these pieces; without `ends`, it is
    incomplete.

    The client disconnects when `leaves` is set. The default client waits for its answer. The
    application
    is mounted at `root_path`.
    """
    waiting = deque(pieces)
    status = 0
    answered: list[tuple[bytes, bytes]] = []
    body = b""

    async def receive() -> dict[str, Any]:
        if waiting:
            piece = waiting.popleft()
            return {"type": "http.request", "body": piece, "more_body": bool(waiting) or not ends}
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            assert not status, "a second answer"
            status = message["status"]
            answered.extend(message["headers"])
        else:
            body += message.get("body", b"")

    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": root_path,
        "asgi": {"version": "3.0"},
    }
    async with asyncio.timeout(SECONDS):
        await app(scope, receive, send)
    return Answer(status, {n.decode(): v.decode("latin-1") for n, v in answered}, body)


async def post(
    app: App,
    body: bytes | dict[str, Any],
    path: str = "/v1/chat/completions",
    headers: Iterable[tuple[bytes, bytes]] = (),
    leaves: asyncio.Event | None = None,
) -> Answer:
    """Sends a JSON body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = (b"content-length", str(len(data)).encode())
    return await request(
        app, "POST", path, headers=(JSON_TYPE, length, *headers), pieces=[data], leaves=leaves
    )


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"authorization", f"Bearer {key}".encode())
