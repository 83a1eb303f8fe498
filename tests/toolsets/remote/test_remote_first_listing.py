"""The first listing of a session has the tools of all its workers."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.nats_cluster import NatsCluster
from tests.support.remote_tools import get_weather

from windlass import Tool, tool
from windlass.messaging import connection
from windlass.messaging.connection import Connection, Msg, connect, count_subscribers
from windlass.toolsets.remote import get_tools_for_model, presence, subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import Announcement, ToolSpec, encode
from windlass.worker import Worker

MakeBridge = Callable[..., Bridge]
SLOW = ToolSpec(name="slow", parameters={"type": "object", "properties": {}})


def named(name: str) -> Tool:
    @tool(name=name)
    def say() -> str:
        """Says its name."""
        return name

    return say


async def names(bridge: Bridge, session: str) -> set[str]:
    return {spec.name for spec in await bridge.specs(session)}


async def slow_worker(
    wire: Connection, session: str, let_go: asyncio.Event, *tools: ToolSpec
) -> None:
    """Announces itself when it is let go."""

    async def on_hello(message: Msg) -> None:
        await let_go.wait()
        frame = Announcement(worker="slow", session=session, tools=tools)
        await wire.publish(subjects.announce(session, "slow"), encode(frame))

    await wire.subscribe(subjects.hello(session), on_hello)
    await wire.flush()


async def test_listing_tools_waits_for_the_slowest_worker(
    nats: str, session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    let_go = asyncio.Event()
    await slow_worker(wire, session, let_go, SLOW)
    bridge = bridge_of()
    async with Worker([get_weather], nats=nats, session=session):
        first = asyncio.gather(names(bridge, session), names(bridge, session))
        while not bridge._directory.members(session):
            await asyncio.sleep(0)
        await wire.flush()  # the listing has had time to end
        assert not first.done()
        let_go.set()
        assert await first == [{"get_weather", "slow"}] * 2


async def test_listing_tools_waits_for_other_workers_if_one_is_known(
    nats: str, session: str, bridge_of: MakeBridge, wire: Connection
) -> None:
    bridge = bridge_of()
    await bridge.start()
    let_go = asyncio.Event()
    async with Worker([get_weather], nats=nats, session=session):
        while not bridge._directory.members(session):
            await asyncio.sleep(0)
        await slow_worker(wire, session, let_go, SLOW)
        first = asyncio.create_task(names(bridge, session))
        await wire.flush()
        let_go.set()
        assert await first == {"get_weather", "slow"}


async def test_all_of_many_workers_are_listed(nats: str, session: str) -> None:
    async with AsyncExitStack() as stack:
        for number in range(12):
            worker = Worker([named(f"say_{number}")], nats=nats, session=session)
            await stack.enter_async_context(worker)
        listed = await get_tools_for_model(session, nats=nats)
    assert {each.name for each in listed} == {f"say_{number}" for number in range(12)}


async def test_a_worker_that_does_not_answer_counts_as_lost(
    nats: str,
    session: str,
    bridge_of: MakeBridge,
    wire: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence, "SILENT_SECONDS", 0.5)
    await slow_worker(wire, session, asyncio.Event(), SLOW)
    async with Worker([get_weather], nats=nats, session=session):
        assert await names(bridge_of(), session) == {"get_weather"}


async def test_a_worker_that_is_refused_does_not_delay_the_others(
    nats: str,
    session: str,
    bridge_of: MakeBridge,
    wire: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence, "SILENT_SECONDS", 3600.0)
    let_go = asyncio.Event()
    let_go.set()
    await slow_worker(wire, session, let_go, ToolSpec(name="no name"))
    async with Worker([get_weather], nats=nats, session=session):
        assert await names(bridge_of(), session) == {"get_weather"}


async def test_a_server_that_cannot_count_is_asked_until_no_more_workers_answer(
    nats: str, session: str, bridge_of: MakeBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TRACES_SINCE", (99, 0))
    monkeypatch.setattr(presence, "QUIET_SECONDS", 2.0)
    bridge = bridge_of()
    one = Worker([get_weather], nats=nats, session=session)
    async with one, Worker([named("other")], nats=nats, session=session):
        assert await names(bridge, session) == {"get_weather", "other"}


@pytest.mark.process
async def test_the_workers_of_a_cluster_are_counted_at_all_its_servers(
    tmp_path: Path, session: str
) -> None:
    async with NatsCluster(tmp_path) as cluster, AsyncExitStack() as stack:
        first, second, third = cluster.servers
        asking = await connect(first, "gateway", {})
        stack.push_async_callback(asking.close)
        for url in (first, second, second, third):
            worker = Worker([get_weather], nats=url, session=session)
            await stack.enter_async_context(worker)
        subject = subjects.hello(session)
        async with asyncio.timeout(60):  # the servers need time to exchange subscriptions
            while await count_subscribers(asking, subject, subjects.trace("g")) != 4:
                await asyncio.sleep(0.01)
