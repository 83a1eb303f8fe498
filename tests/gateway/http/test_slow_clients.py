"""Clients with incomplete requests or too many connections do not block others."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import Serving, config_of
from tests.support.talking import SECONDS, asking

from windlass.gateway import serve
from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.gateway.http.protocol import BoundedProtocol, Connections, address_key
from windlass.testing import Gate, ScriptedModel, say, slow

pytestmark = pytest.mark.measures

SOON = 0.5
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@contextmanager
def serving(script: Any = "Hello.", *, server: Any = None, **limits: Any) -> Iterator[Serving]:
    config = config_of(
        ModelConfig(name="m", target="scripted/m"),
        server=server or ServerConfig(keep_alive_timeout=60.0),
        limits=LimitsConfig(**{"header_timeout": SOON, **limits}),
    )
    with Serving(config, models={"m": ScriptedModel(script)}) as serving:
        yield serving


def connected(serving: Serving, source: str = "127.0.0.1") -> socket.socket:
    port = int(serving.root_url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), SECONDS, (source, 0))


def read_all(connection: socket.socket) -> bytes:
    """All bytes until the gateway closes the connection."""
    came = b""
    while piece := connection.recv(65536):
        came += piece
    return came


def read_answer(connection: socket.socket) -> bytes:
    """One answer with a length; the connection stays."""
    came = b""
    while b"\r\n\r\n" not in came:
        came += connection.recv(65536)
    head, _, body = came.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def code_of(answer: bytes) -> str:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


def is_served(serving: Serving) -> bool:
    with connected(serving) as connection:
        connection.sendall(HEALTH)
        return read_answer(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"G", b"GET /health/live HTTP/1.1\r\n", HEALTH[:-2]])
def test_headers_that_do_not_end_in_time_are_refused(sent: bytes) -> None:
    with serving() as gateway, connected(gateway) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer
        assert code_of(answer) == "header_timeout"


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "an empty line"])
def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    with serving() as gateway, connected(gateway) as connection:
        connection.sendall(sent)
        assert read_all(connection) == b""


@pytest.mark.parametrize("piece", [b"X: y\r\n", b"\r\n"], ids=["headers", "empty lines"])
def test_more_bytes_do_not_extend_the_timeout(piece: bytes) -> None:
    with serving() as gateway, connected(gateway) as connection:
        connection.sendall(HEALTH[:-2] if piece != b"\r\n" else b"")
        connection.settimeout(SOON / 10)
        for _ in range(int(SECONDS / SOON * 10)):
            try:
                came = connection.recv(65536)
                break
            except TimeoutError:
                connection.sendall(piece)
            except ConnectionResetError:  # a byte crossed the end
                return
        else:
            pytest.fail("the connection is still open")
        assert came == b"" or came.startswith(b"HTTP/1.1 408 ")


def test_the_header_timeout_applies_to_each_request_of_a_connection() -> None:
    with serving() as gateway, connected(gateway) as connection:
        for _ in range(2):
            connection.sendall(HEALTH)
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        connection.sendall(HEALTH[:10])
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_is_closed() -> None:
    idle = ServerConfig(keep_alive_timeout=SOON)
    with serving(server=idle, header_timeout=60.0) as gateway, connected(gateway) as connection:
        connection.sendall(HEALTH)
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        assert read_all(connection) == b""


def test_a_body_after_its_answer_is_not_read_forever() -> None:
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 100000\r\n\r\n"
    )
    with serving() as gateway, connected(gateway) as connection:
        connection.sendall(head + b"x")
        assert code_of(read_answer(connection)) == "unsupported_media_type"
        connection.settimeout(SOON / 10)
        for _ in range(int(SECONDS / SOON * 10)):
            try:
                assert connection.recv(65536) == b""
                break
            except TimeoutError:
                connection.sendall(b"x")
            except ConnectionResetError:
                break
        else:
            pytest.fail("the connection is still open")


def connection_of(gateway: Serving) -> Any:
    [connection] = gateway.server.server_state.connections
    return connection


def test_a_slow_request_is_not_interrupted() -> None:
    gate = Gate()
    with serving(slow(say("Hello."), gate=gate)) as gateway, connected(gateway) as connection:
        body = json.dumps(asking("?")).encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head)
        connection.sendall(body)
        gate.reached.block(SECONDS)
        assert connection_of(gateway)._deadline is None
        gate.open()
        assert b"Hello." in read_answer(connection)


def test_half_of_the_next_request_does_not_interrupt_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overdue = threading.Event()
    check = BoundedProtocol._overdue

    def noted(self: BoundedProtocol) -> None:
        check(self)
        overdue.set()

    monkeypatch.setattr(BoundedProtocol, "_overdue", noted)
    gate = Gate()
    with serving(slow(say("Hello."), gate=gate)) as gateway, connected(gateway) as connection:
        body = json.dumps(asking("?")).encode()
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head)
        connection.sendall(body + HEALTH[:10])
        assert overdue.wait(SECONDS)
        gate.open()
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"Hello." in answer


def test_connections_per_address_are_limited() -> None:
    limits = {"max_connections_per_address": 3, "header_timeout": 60.0}
    with serving(**limits) as gateway, ExitStack() as stack:
        for _ in range(3):
            busy = stack.enter_context(connected(gateway))
            busy.sendall(HEALTH)
            assert read_answer(busy).startswith(b"HTTP/1.1 200 ")
        with connected(gateway) as refused:
            answer = read_all(refused)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1" in answer
        assert code_of(answer) == "too_many_connections"
        with connected(gateway, "127.0.0.2") as other:
            other.sendall(HEALTH)
            assert read_answer(other).startswith(b"HTTP/1.1 200 ")
            rendered, _ = gateway.gateway.metrics.render(None)
            assert b'windlass_refused_total{reason="too_many_connections"} 1.0' in rendered


def test_incomplete_requests_are_closed_for_others_of_their_address() -> None:
    limits = {"max_connections_per_address": 3, "header_timeout": 60.0}
    with serving(**limits) as gateway, ExitStack() as stack:
        half = [stack.enter_context(connected(gateway)) for _ in range(10)]
        for connection in half[-3:]:
            connection.sendall(HEALTH[:10])
        for _ in range(3):
            assert is_served(gateway)
        for connection in half[:7]:
            assert read_all(connection) == b""


def test_a_connection_that_is_closed_no_longer_counts() -> None:
    with serving(max_connections_per_address=1, header_timeout=60.0) as gateway:
        for _ in range(3):
            with connected(gateway) as connection:
                connection.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                assert read_all(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(first: str, second: str, same: bool) -> None:
    assert (address_key(first) == address_key(second)) is same


KEYS = (KeyConfig(name="web", hash=new_key()[1]),)


@pytest.mark.parametrize(
    ("descriptors", "keys", "configured", "bound"),
    [
        (65536, (), None, 512),
        (256, (), None, 128),
        (resource.RLIM_INFINITY, (), None, 512),
        (256, KEYS, None, None),
        (256, KEYS, 7, 7),
        (256, (), 1000, 1000),
    ],
)
def test_without_keys_connections_per_address_are_limited(
    monkeypatch: pytest.MonkeyPatch,
    descriptors: int,
    keys: tuple[KeyConfig, ...],
    configured: int | None,
    bound: int | None,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    config = config_of(keys=keys, limits=LimitsConfig(max_connections_per_address=configured))
    assert serve._per_address(config) == bound


def test_closed_connections_leave_no_entries() -> None:
    counted = Connections(header_timeout=1.0, per_address=2)
    for address in ("a", "b", "a"):
        assert counted.enter(address) is None
    assert counted.enter("a") is not None
    for address in ("a", "b", "a"):
        counted.leave(address)
    assert not counted._open
    assert not counted._waiting


def half_sent(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), SECONDS)
    with suppress(OSError):
        connection.sendall(HEALTH[:10])
    return connection


DESCRIPTORS = 64
WITH_KEYS = f'[[keys]]\nname = "web"\nhash = "{new_key()[1]}"\n'


@pytest.mark.process
@pytest.mark.parametrize("keys", ["", WITH_KEYS], ids=["no keys", "keys"])
def test_a_gateway_survives_running_out_of_file_descriptors(tmp_path: Path, keys: str) -> None:
    """400 half-sent requests to a process that may open 64 files."""
    file = tmp_path / "windlass.toml"
    file.write_text(
        '[server]\nport = 0\n[limits]\nheader_timeout = 1\n[models.m]\ntarget = "openai/x"\n'
        f'api_key_env = "PATH"\n{keys}'
    )
    command = [sys.executable, "-m", "windlass", "serve", "--config", str(file)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
    ) as child:
        try:
            assert child.stderr is not None
            said = next(line for line in child.stderr if b"http://" in line)
            port = int(re.findall(rb"http://127.0.0.1:(\d+)", said)[0])
            with ExitStack() as stack:
                half = [stack.enter_context(half_sent(port)) for _ in range(400)]
                for connection in half:
                    with suppress(ConnectionResetError):  # connections that could not be accepted
                        read_all(connection)
                with socket.create_connection(("127.0.0.1", port), SECONDS) as connection:
                    connection.sendall(HEALTH)
                    assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
        finally:
            child.terminate()
