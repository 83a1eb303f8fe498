"""Gateways and workers that start before their NATS server: they wait for it."""

import asyncio
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
from nats.errors import AuthorizationError, SecureConnRequiredError, UnexpectedEOF
from tests.cli.test_serve import KEY, MODEL, QUESTION, TOOLS, failed
from tests.support import commands
from tests.support.ports import free_port

from windlass.errors import ConfigError
from windlass.messaging import NatsUnreachable
from windlass.messaging.connection import Connection, NatsError, connect
from windlass.messaging.embedded import NatsServer
from windlass.testing import FakeOpenAI, call

pytestmark = pytest.mark.process


class Command:
    """`windlass` in a directory; leaving it kills it."""

    def __init__(self, home: Path, *words: str) -> None:
        self.said = ""
        self._process = commands.Command(
            *words, cwd=home, env={"PATH": "", "KEY": KEY}, stderr=subprocess.PIPE
        )

    async def hear(self, marker: str) -> str:
        """The first line on stderr with that marker."""
        return await asyncio.to_thread(self._read_to, marker)

    def end(self, number: signal.Signals) -> int:
        """The exit code after that signal."""
        self._process.send_signal(number)
        _, rest = self._process.communicate(timeout=120)
        self.said += rest
        return self._process.returncode

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _read_to(self, marker: str) -> str:
        assert self._process.stderr is not None
        for line in self.said.splitlines():
            if marker in line:
                return line
        for line in self._process.stderr:
            self.said += line
            if marker in line:
                return line
        raise AssertionError(f"no {marker!r} in:\n{self.said}")


@contextmanager
def running(home: Path, *words: str) -> Iterator[Command]:
    command = Command(home, *words)
    try:
        yield command
    finally:
        command.kill()


def home_of(place: Path, address: str, base_url: str = "http://127.0.0.1:1/v1") -> Path:
    (place / "tools.py").write_text(TOOLS)
    model = MODEL.replace("\n", f'\nbase_url = "{base_url}"\nsessions = ["default"]\n', 1)
    nats = f'nats = ["{address}"]\n'
    (place / "windlass.toml").write_text(f"{model}[workers]\n{nats}[runs]\n{nats}")
    return place


def worker_words(address: str) -> tuple[str, ...]:
    return ("worker", "--tools", "tools.py", "--nats", address)


async def test_a_gateway_and_a_worker_wait_for_nats_and_then_serve(tmp_path: Path) -> None:
    port = free_port()
    address = f"nats://127.0.0.1:{port}"
    with ExitStack() as stack:
        fake = stack.enter_context(FakeOpenAI([call("get_weather", city="Rome"), "Sunny."]))
        home = home_of(tmp_path, address, fake.base_url)
        gateway = stack.enter_context(running(home, "serve", "--port", "0"))
        worker = stack.enter_context(running(home, *worker_words(address)))
        assert address in await worker.hear("no NATS server answers at ")
        url = (await gateway.hear("Windlass listens on ")).split()[-1]
        async with httpx2.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
            for path in ("/health/live", "/v1/models", "/", "/openapi.json", "/metrics"):
                assert (await client.get(path)).status_code == 200, path
            for path in ("/health", "/health/ready"):
                ready = await client.get(path)
                assert ready.status_code == 503
                assert "NATS cannot be reached" in ready.json()["status"]
            refused = [
                await client.post("/v1/chat/completions", json=QUESTION),
                await client.post("/v1/runs", json=QUESTION),
                await client.get("/v1/runs"),
                await client.get("/v1/chats"),
                await client.get("/v1/runs/run_1"),
                await client.get("/v1/tools"),
            ]
            for each in refused:
                assert (each.status_code, each.json()["error"]["code"]) == (503, "nats_unreachable")
                assert int(each.headers["retry-after"]) > 0
            async with NatsServer(port=port, store=tmp_path / "store"):
                await worker.hear("serves get_weather")
                await gateway.hear("run log can be written again")
                await gateway.hear("Accepting workers")
                assert (await client.get("/health/ready")).status_code == 200
                answer = await client.post("/v1/chat/completions", json=QUESTION)
                assert answer.json()["choices"][0]["message"]["content"] == "Sunny."
                assert worker.end(signal.SIGTERM) == 0
                assert gateway.end(signal.SIGTERM) == 0
    assert "sunny in Rome" in str(fake.requests[1].body["messages"])
    assert worker.said.count("NATS server") == 1, worker.said
    assert "Traceback" not in gateway.said + worker.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_that_waits_for_nats_ends_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    address = f"nats://127.0.0.1:{free_port()}"
    with running(home_of(tmp_path, address), *worker_words(address)) as worker:
        await worker.hear("no NATS server answers at ")
        assert worker.end(number) == 0
    assert "Traceback" not in worker.said


async def test_a_gateway_that_waits_for_nats_ends_in_order(tmp_path: Path) -> None:
    address = f"nats://127.0.0.1:{free_port()}"
    with running(home_of(tmp_path, address), "serve", "--port", "0") as gateway:
        await gateway.hear("Windlass listens on ")
        assert gateway.end(signal.SIGTERM) == 0
    assert "Traceback" not in gateway.said


async def test_a_worker_waits_for_a_server_that_accepts_and_stays_silent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"nats://127.0.0.1:{other.getsockname()[1]}"
        with running(home_of(tmp_path, address), *worker_words(address)) as worker:
            await worker.hear("no NATS server answers at ")
            assert worker.end(signal.SIGTERM) == 0


async def test_a_user_that_nats_refuses_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    rules = "authorization { user: me, password: right }"
    async with NatsServer(extra=[rules]) as server:
        place = server.url.removeprefix("nats://")
        home = home_of(tmp_path, f"nats://me:wrong@{place}")
        for words in (worker_words(f"nats://me:wrong@{place}"), ("serve", "--port", "0")):
            said = await asyncio.to_thread(failed, home, *words)
            assert said.startswith(f"cannot connect to NATS at {place}: "), said
            assert "wrong" not in said


def test_a_bad_address_is_one_message_and_exit_code_2(tmp_path: Path) -> None:
    address = "nats://127.0.0.1:port"
    said = failed(home_of(tmp_path, address), *worker_words(address))
    assert said.startswith(f"cannot connect to NATS at {address}: "), said


async def _refuse(error: Exception) -> None:
    raise error


async def test_each_server_is_tried_once_without_waiting_for_the_time_limit() -> None:
    addresses = [f"nats://127.0.0.1:{free_port()}" for _ in range(2)]
    with pytest.raises(NatsUnreachable) as caught:
        await connect(addresses, "test", {}, once=True)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize(
    ("error", "heals"),
    [
        (ConnectionRefusedError("refused"), True),
        (ConnectionResetError("reset"), True),
        (socket.gaierror("no such name yet"), True),
        (TimeoutError(), True),
        (UnexpectedEOF(), True),
        (NatsError("nats: 'Authentication Timeout'"), True),
        (NatsError("nats: 'maximum connections exceeded'"), True),
        (NatsError("nats: 'Authorization Violation'"), False),
        (AuthorizationError(), False),
        (ssl.SSLCertVerificationError("self-signed certificate"), False),
        (SecureConnRequiredError(), False),
        (FileNotFoundError("no credentials"), False),
    ],
)
async def test_only_temporary_failures_count_as_unreachable(
    error: Exception, heals: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "open", lambda *_: _refuse(error))
    with pytest.raises(ConfigError) as caught:
        await connect("nats://me:secret@127.0.0.1:1", "test", {}, once=True)
    assert isinstance(caught.value, NatsUnreachable) == heals
    assert "secret" not in str(caught.value)
