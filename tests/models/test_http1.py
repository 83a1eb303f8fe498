"""HTTP/1.1 connections: every form of a response, damaged ones, timeouts, TLS and proxies."""

import asyncio
import base64
import datetime
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_wires import RawServer, http, raw_server, splits, text, turn
from yarl import URL

from windlass.errors import ModelError
from windlass.models import http1
from windlass.models.http1 import (
    ConnectionPool,
    ConnectTimeout,
    Disconnected,
    HttpConnection,
    HttpError,
    InvalidResponse,
    ReadTimeout,
    Server,
    Unreachable,
)
from windlass.models.openai import OpenAIModel
from windlass.models.retry import Retry, Timeouts
from windlass.testing import FakeOpenAI

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
PIECES = [b"piece %d;" % number * (number + 1) for number in range(300)]


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def pool_for(server: RawServer, read: float = 60.0) -> ConnectionPool:
    url = URL(server.base_url)
    return ConnectionPool(Server(url.host or "", url.port or 0, False), Timeouts(60.0, read))


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server. At the end, waits until its connections are closed."""
    tasks: set[asyncio.Task[object]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError):
            await handler(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listening:
        yield listening.sockets[0].getsockname()[1]
        await asyncio.gather(*tasks)


async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads, and does not answer."""
    while await reader.read(2**16):
        pass


@asynccontextmanager
async def response_of(answer: bytes, *, hold: bool = False) -> AsyncIterator[HttpConnection]:
    """The response of a server that sends these bytes; with `hold`, it then says no more."""
    async with raw_server(answer, hold=hold) as server:
        connection = await asked(pool_for(server))
        await connection.started()
        try:
            yield connection
        finally:
            connection.close()


async def asked(pool: ConnectionPool) -> HttpConnection:
    connection = await pool.take()
    connection.send(REQUEST)
    return connection


async def body_of(answer: bytes) -> bytes:
    async with response_of(answer) as response:
        return await response.rest()


async def test_chunks_that_arrived_together_are_one_read() -> None:
    async with response_of(CHUNKED + chunks(*PIECES) + b"0\r\n\r\n") as response:
        body, reads = b"", 0
        while piece := await response.read():
            body, reads = body + piece, reads + 1
            await asyncio.sleep(0)
        assert await response.read() == b""
    assert body == b"".join(PIECES)
    assert reads < len(PIECES) / 2


async def test_a_body_that_is_larger_than_the_buffer_arrives_whole() -> None:
    large = [b"x" * 50_000, b"y" * 400_000, b"z" * 70_000] * 4
    assert await body_of(CHUNKED + chunks(*large) + b"0\r\n\r\n") == b"".join(large)


async def test_a_large_body_is_read_after_its_connection_was_closed() -> None:
    body = b"x" * 2 * http1.MAX_UNREAD
    async with response_of(http(body)) as response:
        received = await response.read()
        for _ in range(200):
            await asyncio.sleep(0.001)
        assert received + await response.rest() == body


async def test_a_body_that_is_not_read_is_not_received_without_limit() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        piece = chunks(b"x" * 2**16)
        while True:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)

    async with serving(flood) as port:
        pool = ConnectionPool(Server("127.0.0.1", port, False), Timeouts())
        connection = await asked(pool)
        await connection.started()
        before = -1
        while before != sent:  # the buffers of the system fill, too
            before = sent
            await asyncio.sleep(0.25)
        waiting = len(await connection.read())
        assert waiting < 4 * http1.MAX_UNREAD
        assert await connection.read()  # it receives again
        pool.close()


@pytest.mark.parametrize(
    "answer",
    [
        http(b"hello"),
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + http(b"hello"),
    ],
)
async def test_every_form_of_a_body_is_read(answer: bytes) -> None:
    assert await body_of(answer) == b"hello"


@given(st.lists(st.integers(0, 400), max_size=8))
def test_a_response_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    answer = CHUNKED + chunks(b"hello ", b"world") + b"0\r\n\r\n"

    async def read() -> None:
        buffer = memoryview(bytearray(1_000))
        connection = HttpConnection(60.0, buffer)
        connection.complete = False
        for piece in splits(answer, cuts):
            buffer[: len(piece)] = piece
            connection.buffer_updated(len(piece))
        assert connection.status == 200
        assert connection.complete
        assert await connection.rest() == b"hello world"

    asyncio.run(read())


@pytest.mark.parametrize(("name", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_compressed_body_is_unpacked(name: str, packed: Callable[[bytes], bytes]) -> None:
    data = packed(b"hello " * 1000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {len(data)}\r\n\r\n"
    assert await body_of(head.encode() + data) == b"hello " * 1000


async def test_a_damaged_compressed_body_is_an_error() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"
    with pytest.raises(InvalidResponse):
        await body_of(head + b"hello")


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"5\r\nhello\r\n5\r\nwo",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello",
    ],
)
async def test_data_before_a_broken_connection_is_read_first(answer: bytes) -> None:
    async with response_of(answer) as response:
        received = b""
        with pytest.raises(Disconnected):
            while piece := await response.read():
                received += piece
    assert received.startswith(b"hello")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", Disconnected),
        (b"HTTP/1.1 200", Disconnected),
        (b"SSH-2.0-OpenSSH\r\n\r\n", InvalidResponse),
        (CHUNKED.replace(b"OK", b"OK\r\nBad header"), InvalidResponse),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            HttpError,
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * http1.MAX_HEAD, InvalidResponse),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * http1.MAX_HEAD, InvalidResponse),
    ],
)
async def test_a_response_that_is_not_http_is_an_error(
    answer: bytes, expected: type[HttpError]
) -> None:
    async with raw_server(answer) as server:
        connection = await asked(pool_for(server))
        with pytest.raises(expected):
            await connection.started()
        connection.close()


async def test_damage_in_the_middle_of_a_body_is_an_error() -> None:
    with pytest.raises(InvalidResponse):
        await body_of(CHUNKED + b"5\r\nhello\r\nthis is no length\r\n")


async def test_a_silent_server_times_out_before_and_during_its_response() -> None:
    for answer in (b"", CHUNKED + b"5\r\nhello\r\n"):
        async with raw_server(answer, hold=True) as server:
            connection = await asked(pool_for(server, read=0.25))
            with pytest.raises(ReadTimeout):
                await connection.started()
                assert await connection.read() == b"hello"
                await connection.read()


async def test_a_slow_response_may_take_longer_than_the_timeout() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        for _ in range(8):
            writer.write(chunks(b"drop "))
            await asyncio.sleep(0.25)
        writer.write(b"0\r\n\r\n")

    async with serving(drip) as port:
        pool = ConnectionPool(Server("127.0.0.1", port, False), Timeouts(60.0, 1.5))
        connection = await asked(pool)
        await connection.started()
        assert await connection.rest() == b"drop " * 8
        pool.close()


async def test_connections_are_reused_unless_the_server_closes_them() -> None:
    async with serving(listen) as port:
        pool = ConnectionPool(Server("127.0.0.1", port, False), Timeouts())
        first, second = await pool.take(), await pool.take()
        assert first is not second
        first.release()
        second.release()
        assert await pool.take() is second
        second.close()
        while second in pool._all:
            await asyncio.sleep(0)
        assert await pool.take() is first
        pool.close()
    async with raw_server(http(b"hello").replace(b"OK", b"OK\r\nConnection: close")) as server:
        pool = pool_for(server)
        connection = await asked(pool)
        await connection.started()
        await connection.rest()
        connection.release()
        assert not connection.is_reusable
        pool.close()


async def test_a_connection_with_unrequested_bytes_is_not_reused() -> None:
    async with raw_server(http(b"hello") + http(b"smuggled"), hold=True) as server:
        connection = await asked(pool_for(server))
        await connection.started()
        assert await connection.rest() == b"hello"
        while connection.is_reusable:
            await asyncio.sleep(0)
        connection.release()
        with pytest.raises(Disconnected):
            connection.send(REQUEST)


async def test_idle_connections_close_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "KEEP_ALIVE", 0.25)
    async with raw_server(http(b"hello"), hold=True) as server:
        pool = pool_for(server)
        connection = await asked(pool)
        await connection.started()
        await connection.rest()
        connection.release()
        assert connection.is_reusable
        while pool._all:
            await asyncio.sleep(0.01)


async def test_a_host_that_does_not_exist_or_does_not_answer_is_unreachable() -> None:
    for server in (Server("127.0.0.1", 9, False), Server("no-such-host.invalid", 80, False)):
        with pytest.raises(Unreachable) as raised:
            await ConnectionPool(server, Timeouts()).take()
        assert isinstance(raised.value.__cause__, OSError)


async def test_a_handshake_that_does_not_end_is_a_timeout() -> None:
    async with serving(listen) as port:
        pool = ConnectionPool(Server("127.0.0.1", port, True), Timeouts(0.25, 60.0))
        with pytest.raises(ConnectTimeout):
            await pool.take()


def test_the_host_of_a_request_has_its_port_unless_it_is_the_usual_one() -> None:
    assert Server("x.example", 443, True).authority == "x.example"
    assert Server("x.example", 443, False).authority == "x.example:443"
    assert Server("::1", 8080, False).authority == "[::1]:8080"


# TLS and proxies.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `upstream.test`, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "upstream.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("upstream.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    path = tmp_path_factory.mktemp("tls") / "upstream.pem"
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, form, plain))
    return path


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The certificate, which the system trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http1.tls_context.cache_clear()
    yield certificate
    http1.tls_context.cache_clear()


class Proxy:
    """A proxy that connects every request to one upstream, and notes what it was asked."""

    def __init__(self, port: int, refusal: bytes = b"") -> None:
        self._port, self._refusal = port, refusal
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self._refusal:
            writer.write(self._refusal)
            return
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 HttpConnection established\r\n\r\n")
            head = b""
        await joined(reader, writer, self._port, head.replace(b"http://upstream.test:8080", b""))


async def joined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, first: bytes = b""
) -> None:
    """Passes everything between a client and a server, until both have closed."""
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
    far_writer.write(first)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(2**16):
                target.write(data)
        target.close()

    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
    with suppress(OSError):
        await far_writer.wait_closed()


@asynccontextmanager
async def proxied(
    monkeypatch: pytest.MonkeyPatch, port: int, refusal: bytes = b""
) -> AsyncIterator[Proxy]:
    """A proxy with a user, in the environment."""
    proxy = Proxy(port, refusal)
    async with serving(proxy.serve) as own_port:
        address = f"http://me:secret@127.0.0.1:{own_port}"
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("https_proxy", address)
        yield proxy


@asynccontextmanager
async def tls_front(certificate: Path, port: int) -> AsyncIterator[int]:
    """The port of a server that ends TLS in front of another one."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async with serving(partial(joined, port=port), context) as own_port:
        yield own_port


BASIC = b"Proxy-Authorization: Basic " + base64.b64encode(b"me:secret")


async def test_a_server_with_tls_is_reached_through_a_proxy(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        FakeOpenAI("Hi") as fake,
        tls_front(trusted, URL(fake.base_url).port or 0) as port,
        proxied(monkeypatch, port) as proxy,
    ):
        model = OpenAIModel("m", base_url="https://upstream.test/v1")
        for _ in range(2):
            assert text(await turn(model)) == "Hi"
        await model.aclose()
    (head,) = proxy.heads  # one tunnel for both turns
    assert head.startswith(b"CONNECT upstream.test:443 HTTP/1.1\r\n")
    assert BASIC in head
    assert b"proxy-authorization" not in fake.requests[0].headers


async def test_a_server_without_tls_is_reached_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        FakeOpenAI("Hi") as fake,
        proxied(monkeypatch, URL(fake.base_url).port or 0) as proxy,
    ):
        model = OpenAIModel("m", base_url="http://upstream.test:8080/v1")
        assert text(await turn(model)) == "Hi"
        await model.aclose()
    assert proxy.heads[0].startswith(b"POST http://upstream.test:8080/v1/chat/completions HTTP/1.1")
    assert BASIC in proxy.heads[0]


async def test_a_proxy_that_refuses_is_reported_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with proxied(monkeypatch, 9, refusal):
        model = OpenAIModel("m", base_url="https://upstream.test/v1", retry=Retry(attempts=1))
        with pytest.raises(ModelError, match="the proxy cannot reach") as raised:
            await turn(model)
        await model.aclose()
    assert raised.value.status == 407
    assert "secret" not in str(raised.value)


async def test_a_certificate_that_is_not_trusted_is_refused_at_once(certificate: Path) -> None:
    async with tls_front(certificate, 9) as port:
        model = OpenAIModel("m", base_url=f"https://127.0.0.1:{port}/v1")
        with pytest.raises(ModelError, match="no secure connection") as raised:
            await turn(model)
        await model.aclose()
    assert not raised.value.retryable


async def test_a_user_in_the_base_url_is_sent_as_basic_authorization() -> None:
    async with FakeOpenAI("Hi") as fake:
        model = OpenAIModel("m", base_url=fake.base_url.replace("//", "//me:secret@"))
        await turn(model)
        await model.aclose()
    expected = f"Basic {base64.b64encode(b'me:secret').decode()}"
    assert fake.requests[0].headers["authorization"] == expected
