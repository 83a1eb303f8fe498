"""How a response is written: its head and the start of its body together, and checked first."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from windlass.gateway.http.protocol import BoundedProtocol, Connections

REQUEST = b"%s / HTTP/1.1\r\nHost: localhost\r\n\r\n"
START = {"type": "http.response.start", "status": 200, "headers": []}
LENGTH = (b"content-length", b"2")
Application = Callable[[Any, Any, Any], Awaitable[None]]


class Wire(asyncio.Transport):
    """Records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def answered(app: Application, method: bytes = b"GET") -> Wire:
    """The transport of a connection after the app has answered one request."""
    config = Config(cast("Any", app), log_config=None, lifespan="off", proxy_headers=False)
    config.load()
    state, wire = ServerState(), Wire()
    connection = BoundedProtocol(
        Connections(header_timeout=60), config=config, server_state=state, app_state={}
    )
    connection.connection_made(wire)
    connection.data_received(REQUEST % method)
    await asyncio.gather(*state.tasks)
    connection.connection_lost(None)
    return wire


def app_of(*messages: dict[str, Any]) -> Application:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_a_complete_response_is_one_write() -> None:
    wire = await answered(app_of({**START, "headers": [LENGTH]}, body(b"{}")))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]


async def test_a_stream_is_written_in_chunks_and_its_head_with_the_first() -> None:
    wire = await answered(app_of(START, body(b"a", more=True), body(b"bc")))
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert wire.writes == [head + b"1\r\na\r\n", b"2\r\nbc\r\n0\r\n\r\n"]


async def test_a_response_head_is_sent_before_a_late_body() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await send(body(b"late"))

    wire = await answered(app)
    assert wire.writes[0].endswith(b"chunked\r\n\r\n")
    assert wire.writes[1:] == [b"4\r\nlate\r\n0\r\n\r\n"]


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
async def test_a_response_without_a_body_has_none(method: bytes, status: int) -> None:
    wire = await answered(app_of({**START, "status": status}, body(b"")), method)
    head, _, rest = b"".join(wire.writes).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert not rest


async def test_the_body_of_an_answer_to_head_is_not_sent() -> None:
    wire = await answered(app_of({**START, "headers": [LENGTH]}, body(b"{}")), b"HEAD")
    assert b"".join(wire.writes).endswith(b"content-length: 2\r\n\r\n")


async def test_a_response_with_connection_close_closes_the_connection() -> None:
    wire = await answered(app_of({**START, "headers": [(b"connection", b"close")]}, body(b"x")))
    assert wire.closed
    assert b"".join(wire.writes).count(b"connection: close") == 1


@pytest.mark.parametrize(
    "header",
    [
        (b"x-a", b"1\r\nx-b: 2"),
        (b"x-a: 1\r\nx-b", b"1"),
        (b"x-a\r\nx-b", b"1"),
        (b"x a", b"1"),
        (b"", b"1"),
        (b"x-a", b"\0"),
    ],
)
async def test_a_header_value_cannot_add_another_header(header: tuple[bytes, bytes]) -> None:
    wire = await answered(app_of({**START, "headers": [header]}, body(b"x")))
    assert b"x-b" not in b"".join(wire.writes)
    assert not b"".join(wire.writes).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("data", [b"{", b"{ }"])
async def test_a_body_of_another_length_is_an_error(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await answered(app_of({**START, "headers": [LENGTH]}, body(data)))
    assert wire.closed
    assert "Content-Length" in caplog.text
