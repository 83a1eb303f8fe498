"""Calls whose worker or NATS server is lost and returns: each call gets one answer."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.support.mortal_nats import MortalNats
from tests.support.remote_tools import get_weather, spec_named, weather_of_exited_worker

from windlass import ToolContext, ToolError, tool
from windlass.content import FunctionResponse
from windlass.messaging.connection import Connection, Msg
from windlass.toolsets.remote import RemoteSession, calls, execute_in_session, subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.calls import Answer, Lost, PendingCalls
from windlass.toolsets.remote.directory import SessionWorker
from windlass.toolsets.remote.frames import REPLY, Announcement, Busy, Call, Result, decode, encode
from windlass.worker import Worker

MakeBridge = Callable[..., Bridge]
CONTEXT = ToolContext(run_id="run_1", call_id="call_1")


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[MortalNats]:
    async with MortalNats(tmp_path) as server:
        yield server


class Holding:
    """A tool that ends when the test releases it, and counts its starts."""

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.times = 0

    async def hold(self) -> str:
        """Holds."""
        self.times += 1
        self.begun.set()
        await self.let_go.wait()
        return "held"


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_a_call_survives_the_end_of_its_nats_server(
    mortal: MortalNats, session: str, bridge_of: MakeBridge, meanwhile: bool
) -> None:
    """Also if it answers while no server is running."""
    holding = Holding()
    bridge = bridge_of(mortal.url)
    async with Worker([tool(holding.hold)], nats=mortal.url, session=session):
        spec = await spec_named(bridge, session, "hold")
        running = asyncio.create_task(bridge.call(session, spec, {}, CONTEXT))
        await holding.begun.wait()
        await mortal.kill()
        if meanwhile:
            holding.let_go.set()
        await mortal.come_back()
        holding.let_go.set()
        assert (await running).output == "held"
    assert holding.times == 1


async def test_a_pause_of_nats_does_not_count_against_the_workers(
    mortal: MortalNats, session: str, bridge_of: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also calls that may be repeated stay with their worker, which runs each once."""
    monkeypatch.setattr(calls, "SILENT_SECONDS", 0.5)
    once, often = Holding(), Holding()
    tools = [tool(name="once")(once.hold), tool(name="often", idempotent=True)(often.hold)]
    bridge = bridge_of(mortal.url)
    async with Worker(tools, nats=mortal.url, session=session):
        specs = [await spec_named(bridge, session, name) for name in ("once", "often")]
        running = [
            asyncio.create_task(bridge.call(session, spec, {}, ToolContext("run", spec.name)))
            for spec in specs
        ]
        await once.begun.wait()
        await often.begun.wait()
        mortal.pause()
        done, _ = await asyncio.wait(running, timeout=2.5)
        assert not done
        mortal.wake()
        once.let_go.set()
        often.let_go.set()
        assert [answer.output for answer in await asyncio.gather(*running)] == ["held", "held"]
    assert (once.times, often.times) == (1, 1)


async def test_a_pause_of_the_gateway_does_not_count_against_the_workers(
    nats: str, session: str, bridge_of: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "SILENT_SECONDS", 0.5)
    holding = Holding()
    bridge = bridge_of()
    async with Worker([tool(holding.hold)], nats=nats, session=session):
        spec = await spec_named(bridge, session, "hold")
        running = asyncio.create_task(bridge.call(session, spec, {}, CONTEXT))
        await holding.begun.wait()
        time.sleep(1.5)  # noqa: ASYNC251 - it is the event loop that is to stand still
        holding.let_go.set()
        assert (await running).output == "held"


async def test_a_call_that_may_be_repeated_is_made_elsewhere_when_its_worker_leaves(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    first, second = Holding(), Holding()
    second.let_go.set()
    bridge = bridge_of()
    one = Worker([tool(on_interrupt="retry")(first.hold)], nats=nats, session=session)
    async with one:
        spec = await spec_named(bridge, session, "hold")
        running = asyncio.create_task(bridge.call(session, spec, {}, CONTEXT))
        await first.begun.wait()
    other = Worker([tool(on_interrupt="retry")(second.hold)], nats=nats, session=session)
    async with other:
        assert (await running).output == "held"
    assert (first.times, second.times) == (1, 1)


async def test_a_call_that_may_not_be_repeated_is_not_when_its_worker_leaves(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    first, second = Holding(), Holding()
    bridge = bridge_of()
    async with Worker([tool(second.hold)], nats=nats, session=session, worker_id="b"):
        async with Worker([tool(first.hold)], nats=nats, session=session, worker_id="a"):
            spec = await spec_named(bridge, session, "hold")
            bridge._directory._bound[session] = "a"
            while bridge._directory.member(session, "a") is None:
                await asyncio.sleep(0)
            running = asyncio.create_task(bridge.call(session, spec, {}, CONTEXT))
            await first.begun.wait()
        with pytest.raises(ToolError, match="effect unknown: the worker a was stopped") as caught:
            await running
    assert caught.value.effect_unknown
    assert second.times == 0


async def test_a_call_without_a_worker_waits_for_one(
    nats: str, session: str, bridge_of: MakeBridge
) -> None:
    bridge = bridge_of()
    spec = await weather_of_exited_worker(bridge, nats, session)
    waiting = asyncio.create_task(bridge.call(session, spec, {"city": "Paris"}, CONTEXT))
    async with Worker([get_weather], nats=nats, session=session):
        assert (await waiting).output == {"city": "Paris", "unit": "celsius"}


async def test_a_call_for_an_exiting_worker_goes_to_another_worker(
    nats: str, session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    bridge = bridge_of()

    async def refuse(message: Msg) -> None:
        await message.respond(encode(Busy()))

    async with Worker([get_weather], nats=nats, session=session):
        spec = await spec_named(bridge, session, "get_weather")
        await wire.subscribe(subjects.to_worker(session, "leaving", "call"), refuse)
        leaving = Announcement(worker="leaving", session=session, tools=(spec,))
        await wire.publish(subjects.announce(session, "leaving"), encode(leaving))
        while bridge._directory.member(session, "leaving") is None:
            await asyncio.sleep(0)
        bridge._directory._bound[session] = "leaving"
        answer = await bridge.call(session, spec, {"city": "Paris"}, CONTEXT)
    assert answer.output == {"city": "Paris", "unit": "celsius"}


async def test_a_call_whose_large_answer_was_lost_is_not_run_again(
    nats: str, session: str, wire: Connection
) -> None:
    times: list[int] = []

    @tool
    def much() -> str:
        """Returns a long text."""
        times.append(1)
        return "x" * (1 << 20)

    asked = encode(Call(key="run_1:call_1", name="much", arguments="{}"))
    async with Worker([much], nats=nats, session=session, worker_id="w"):
        subject = subjects.to_worker(session, "w", "call")
        first = decode(await wire.request(subject, asked, 10), REPLY)
        again = decode(await wire.request(subject, asked, 10), REPLY)
    assert isinstance(first, Result)
    assert first.outcome == "ok"
    assert isinstance(again, Result)
    assert "the answer was lost" in str(again.response.error)
    assert len(times) == 1


class Line:
    """A connection that records sent messages, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        """Subjects, each with where the answer goes."""
        self.lost: list[SessionWorker] = []
        self.calls = PendingCalls("g", self.lost.append, lambda: self.now)
        self.member = SessionWorker(Announcement(worker="slow", session="s", tools=()), self.now)

    async def publish(self, subject: str, data: bytes, reply: str) -> None:
        self.sent.put_nowait((subject, reply))

    def ask(self) -> "asyncio.Task[Answer]":
        wire = cast("Connection", self)
        call = Call(key="k", name="look", arguments="{}")
        return asyncio.create_task(self.calls.ask(wire, self.member, call, b"", None, again=False))

    async def ping(self) -> str:
        """Pings the worker; returns where its answer goes."""
        await self.calls.check_workers(cast("Connection", self))
        subject, reply = self.sent.get_nowait()
        assert subject == subjects.to_worker("s", "slow", "ping")
        return reply

    async def answer(self, reply: str, data: bytes = b"{}") -> None:
        message = cast("Msg", SimpleNamespace(subject=reply, data=data, headers=None))
        await self.calls.on_reply(cast("Connection", self), message)


async def test_a_worker_that_is_slow_to_answer_pings_is_not_lost() -> None:
    """Each answer comes when the next ping has been sent already."""
    line, late = Line(), deque[str]()
    running = line.ask()
    _, reply = await line.sent.get()
    for _ in range(100):
        line.now += calls.SILENT_SECONDS / 20
        late.append(await line.ping())
        if len(late) > 3:
            await line.answer(late.popleft())
    assert line.lost == []
    done = FunctionResponse("get_weather", {"output": "sunny"}, "call_1")
    await line.answer(reply, encode(Result(response=done)))
    answer = await running
    assert isinstance(answer, Result)
    assert answer.response.output == "sunny"


async def test_a_worker_that_answers_no_ping_is_lost() -> None:
    line = Line()
    running = line.ask()
    await line.sent.get()
    await line.ping()
    line.now += calls.SILENT_SECONDS + 0.1
    await line.calls.check_workers(cast("Connection", line))
    with pytest.raises(Lost):
        await running
    assert line.lost == [line.member]


async def test_the_time_limit_of_pings_starts_with_the_first_call() -> None:
    """Its last announcement may be old, if it had no calls since."""
    line = Line()
    line.now += calls.SILENT_SECONDS + 0.1
    running = line.ask()
    await line.sent.get()
    await line.ping()
    assert line.lost == []
    line.now += calls.SILENT_SECONDS + 0.1
    await line.calls.check_workers(cast("Connection", line))
    with pytest.raises(Lost):
        await running


async def test_an_unreachable_server_is_logged_once(
    mortal: MortalNats, bridge_of: MakeBridge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass.messaging")
    bridge = bridge_of(mortal.url)
    await bridge.start()
    assert bridge._connection is not None
    await mortal.kill()
    while bridge._connection._client.server_pool[0].reconnects < 3:
        await asyncio.sleep(0)
    await mortal.come_back()
    while not bridge._connection.reconnects:
        await asyncio.sleep(0)
    await bridge._connection.flush()
    said = [record.message for record in caplog.records if record.message.startswith("NATS")]
    assert len(said) in (2, 3)  # that it was lost, perhaps also how the first try failed
    assert said[-1] == "NATS reconnected"


@pytest.mark.process
async def test_an_unused_session_does_not_look_for_its_lost_server(
    mortal: MortalNats, session: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "windlass")
    async with Worker([get_weather], nats=mortal.url, session=session):
        await execute_in_session(session, "get_weather", {"city": "Paris"}, nats=mortal.url)
    used = RemoteSession(session, nats=mortal.url)
    bridge = used._bridge()
    await mortal.kill()
    assert bridge._connection is not None
    while not bridge._connection.closed:
        await asyncio.sleep(0)
    await mortal.come_back()
    assert [record.message for record in caplog.records] == []
    async with Worker([get_weather], nats=mortal.url, session=session):
        found = await execute_in_session(session, "get_weather", {"city": "Rome"}, nats=mortal.url)
    assert found == {"city": "Rome", "unit": "celsius"}
    await used.aclose()
