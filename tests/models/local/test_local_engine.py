"""The engine: one server, any thread, one request after another."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from windlass.errors import ConfigError, ModelError
from windlass.models.local import engine as engines
from windlass.models.local.engine import Engine, engine_of, unload

ANSWER = [b"one", b"two", b"three"]


class FakeServer:
    """Answers with three chunks; a body may name a gate that it waits at before each."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.told: dict[bytes, int] = {}
        self.gates: dict[bytes, threading.Semaphore] = {}
        self.stopped = threading.Event()

    def handle_chat_completions(self, prompt: bytes, callback: Callable[[bytes], bool]) -> None:
        self.begun.append(prompt)
        if prompt == b"bad":
            raise ValueError("JSON schema error")
        for chunk in ANSWER:
            if prompt in self.gates:
                assert self.gates[prompt].acquire(timeout=10)
            self.told[prompt] = self.told.get(prompt, 0) + 1
            if callback(chunk):
                self.stopped.set()
                return


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
async def engine(server: FakeServer) -> AsyncGenerator[Engine]:
    engine = Engine(Path("w.gguf"), 512, open=lambda path, context: server)
    yield engine
    engine.close()


async def answer(engine: Engine, body: bytes) -> list[bytes]:
    async with aclosing(engine.chunks(body)) as chunks:
        return [chunk async for chunk in chunks]


async def test_chunks_are_read_as_the_runtime_sends_them(
    engine: Engine, server: FakeServer
) -> None:
    gate = server.gates[b"slow"] = threading.Semaphore(1)
    async with aclosing(engine.chunks(b"slow")) as chunks:
        assert await anext(chunks) == b"one"
        assert server.told[b"slow"] == 1
        gate.release(2)
        assert [chunk async for chunk in chunks] == [b"two", b"three"]


async def test_requests_run_in_the_order_in_which_they_came(
    engine: Engine, server: FakeServer
) -> None:
    bodies = [b"%d" % number for number in range(8)]
    answers = await asyncio.gather(*(answer(engine, body) for body in bodies))
    assert server.begun == bodies
    assert answers == [ANSWER] * 8


async def test_a_cancelled_request_stops_at_its_next_piece(
    engine: Engine, server: FakeServer
) -> None:
    gate = server.gates[b"long"] = threading.Semaphore(1)
    async with aclosing(engine.chunks(b"long")) as chunks:
        await anext(chunks)
    gate.release()
    assert await asyncio.to_thread(server.stopped.wait, 10)
    assert server.told[b"long"] < len(ANSWER)


async def test_a_request_cancelled_in_the_queue_never_starts(
    engine: Engine, server: FakeServer
) -> None:
    gate = server.gates[b"first"] = threading.Semaphore(1)
    async with aclosing(engine.chunks(b"first")) as first:
        await anext(first)
        waiting = asyncio.create_task(answer(engine, b"second"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.release(2)
        await anext(first)
    assert await answer(engine, b"third") == ANSWER
    assert server.begun == [b"first", b"third"]


async def test_a_refusal_of_the_runtime_is_a_model_error(engine: Engine) -> None:
    with pytest.raises(ModelError, match="JSON schema error") as raised:
        await answer(engine, b"bad")
    assert raised.value.status == 400
    assert await answer(engine, b"good") == ANSWER


async def test_loading_that_failed_is_tried_again(server: FakeServer) -> None:
    problems = [ConfigError("no memory")]

    def opening(path: Path, context: int) -> FakeServer:
        if problems:
            raise problems.pop()
        return server

    engine = Engine(Path("w.gguf"), 512, open=opening)
    with pytest.raises(ConfigError, match="no memory"):
        await engine.load()
    await engine.load()
    assert await answer(engine, b"hello") == ANSWER
    engine.close()


async def test_weights_are_loaded_once(server: FakeServer) -> None:
    opened: list[tuple[Path, int]] = []

    def opening(path: Path, context: int) -> FakeServer:
        opened.append((path, context))
        return server

    engine = Engine(Path("w.gguf"), 512, open=opening)
    await asyncio.gather(engine.load(), answer(engine, b"a"), answer(engine, b"b"))
    assert opened == [(Path("w.gguf"), 512)]
    engine.close()


def test_several_event_loops_share_one_engine(server: FakeServer) -> None:
    engine = Engine(Path("w.gguf"), 512, open=lambda path, context: server)
    answers: list[list[bytes]] = []

    def run() -> None:
        answers.append(asyncio.run(answer(engine, b"hello")))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [ANSWER] * 3
    engine.close()


def test_a_closed_event_loop_stops_its_request(server: FakeServer) -> None:
    engine = Engine(Path("w.gguf"), 512, open=lambda path, context: server)
    gate = server.gates[b"long"] = threading.Semaphore(1)

    async def abandon() -> None:
        await anext(chunks)

    chunks = engine.chunks(b"long")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(abandon())
    loop.close()
    gate.release()
    assert server.stopped.wait(60)
    engine.close()


def test_one_file_has_one_engine_until_it_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_engines", {})
    one = engine_of(Path("a.gguf"), 512)
    assert engine_of(Path("a.gguf"), 512) is one
    assert engine_of(Path("b.gguf"), 512) is not one
    unload()
    assert engine_of(Path("a.gguf"), 512) is not one
    unload()


def test_a_forked_process_does_not_touch_its_parent_s_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "_engines", {})
    parents = engine_of(Path("a.gguf"), 512)
    monkeypatch.setattr(engines.os, "getpid", lambda: -1)
    assert engine_of(Path("a.gguf"), 512) is not parents
    unload()
    assert list(engines._engines.values()) == [parents]
