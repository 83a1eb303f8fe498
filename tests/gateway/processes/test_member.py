"""A process of a gateway, and the supervisor at the other end of its connection."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from windlass.gateway.config import LimitsConfig
from windlass.gateway.processes.member import GATEWAY, Assignment, Member, SharedPlaces
from windlass.gateway.processes.messages import (
    Acquire,
    Drain,
    Find,
    Force,
    FromProcess,
    FromSupervisor,
    Ready,
    Recall,
    Relax,
    RequestAnswer,
    Return,
    Spend,
    Store,
    Stored,
    Withdraw,
    encode,
    from_process,
)


class Supervisor:
    """What the process says, one message after another, and what it hears."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def hear(self) -> FromProcess:
        return from_process(await self._reader.readline())

    def say(self, message: FromSupervisor) -> None:
        self._writer.write(encode(message))

    async def exit(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def supervised() -> AsyncGenerator[tuple[Member, Supervisor]]:
    listener = socket.create_server(("127.0.0.1", 0))
    ours, theirs = socket.socketpair()
    member = Member(Assignment(1, listener.detach(), theirs.detach()))
    supervisor = Supervisor(*await asyncio.open_connection(sock=ours))
    with member.listener:
        await member.open()
        yield member, supervisor
        await member.aclose()
        await supervisor.exit()


async def test_a_process_reports_that_it_is_ready() -> None:
    async with supervised() as (member, supervisor):
        member.ready()
        assert await supervisor.hear() == Ready()


async def test_the_supervisor_counts_the_requests_of_a_key() -> None:
    async with supervised() as (member, supervisor):
        waiting = asyncio.create_task(member.spend("key web", 60))
        assert await supervisor.hear() == Spend(1, "key web", 60)
        supervisor.say(RequestAnswer(1, 2.5))
        assert await waiting == 2.5


@pytest.mark.parametrize("granted", [True, False])
async def test_the_supervisor_decides_about_a_slot(granted: bool) -> None:
    async with supervised() as (member, supervisor):
        waiting = asyncio.create_task(member.acquire("model m", 3))
        assert await supervisor.hear() == Acquire(1, "model m", 3)
        supervisor.say(RequestAnswer(1, float(granted)))
        assert await waiting is granted


async def test_a_released_slot_is_reused_without_a_message() -> None:
    async with supervised() as (member, supervisor):
        first = asyncio.create_task(member.acquire("model m", 1))
        await supervisor.hear()
        supervisor.say(RequestAnswer(1, 1.0))
        assert await first
        member.release("model m")
        assert await member.acquire("model m", 1)
        member.ready()
        assert await supervisor.hear() == Ready()  # nothing was said in between


async def test_recalled_slots_are_returned_until_the_recall_ends() -> None:
    async with supervised() as (member, supervisor):
        turns = [asyncio.create_task(member.acquire("model m", 2)) for _ in range(2)]
        for number in (1, 2):
            await supervisor.hear()
            supervisor.say(RequestAnswer(number, 1.0))
        assert all(await asyncio.gather(*turns))
        member.release("model m")
        supervisor.say(Recall("model m"))
        assert await supervisor.hear() == Return("model m", 1, recalled=True)
        member.release("model m")
        assert await supervisor.hear() == Return("model m", 1)
        supervisor.say(Relax("model m"))
        member.force_acquire("model m")
        assert await supervisor.hear() == Force("model m")
        member.release("model m")  # of a slot that was never granted
        assert await supervisor.hear() == Return("model m", 1)


async def test_a_cancelled_caller_withdraws_its_request() -> None:
    async with supervised() as (member, supervisor):
        waiting = asyncio.create_task(member.acquire("model m", 1))
        assert await supervisor.hear() == Acquire(1, "model m", 1)
        waiting.cancel()
        assert await supervisor.hear() == Withdraw(1, "model m")
        supervisor.say(RequestAnswer(1, 1.0))  # it was granted at the same moment
        counted = asyncio.create_task(member.spend("key web", 60))
        await supervisor.hear()
        supervisor.say(RequestAnswer(2, 0.0))
        await counted  # and so the earlier answer has arrived, too
        supervisor.say(Recall("model m"))
        assert await supervisor.hear() == Return("model m", 1, recalled=True)


async def test_the_global_run_limit_has_slots_and_a_queue() -> None:
    async with supervised() as (member, supervisor):
        places, limits = SharedPlaces(member), LimitsConfig(max_running=5, max_queued=7)
        first, second = places.request(limits), places.request(limits)
        assert await supervisor.hear() == Acquire(1, GATEWAY, 5, 7)
        assert await supervisor.hear() == Acquire(2, GATEWAY, 5, 7)
        supervisor.say(RequestAnswer(1, 1.0))
        assert await first
        places.withdraw(second)
        assert await supervisor.hear() == Withdraw(2, GATEWAY)
        places.withdraw(first)  # it has a place, which is free again
        assert await places.request(limits)
        places.force()
        assert await supervisor.hear() == Force(GATEWAY)
        places.leave()
        assert await supervisor.hear() == Return(GATEWAY, 1)


async def test_a_process_drains_when_it_is_asked_and_ends_without_its_supervisor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with supervised() as (member, supervisor):
        drained, lost = asyncio.Event(), asyncio.Event()
        member.on_drain, member.on_lost = drained.set, lost.set
        supervisor.say(Drain())
        await drained.wait()
        assert not lost.is_set()
        await supervisor.exit()
        await lost.wait()
    assert "The supervisor exited: shutting down" in caplog.messages


async def test_a_process_stores_runs_that_others_search_and_searches_theirs() -> None:
    async with supervised() as (member, supervisor):
        wanted: list[str] = []

        async def store(run_id: str) -> None:
            wanted.append(run_id)

        member.on_search = store
        supervisor.say(Store(5, "run_a"))
        assert await supervisor.hear() == Stored(5)
        assert wanted == ["run_a"]
        search = asyncio.create_task(member.search("run_b"))
        assert await supervisor.hear() == Find(1, "run_b")
        assert not search.done()
        supervisor.say(RequestAnswer(1, 1))
        await search
