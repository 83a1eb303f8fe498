"""The limits of several gateways: on a real NATS server, with a fake clock."""

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from nats.js.errors import BucketNotFoundError
from nats.js.kv import KeyValue

from windlass.gateway.limits import fleet
from windlass.gateway.limits.fleet import FleetCounter
from windlass.messaging.connection import Connection, connect
from windlass.messaging.embedded import NatsServer
from windlass.runs.jetstream.streams import LEASES

pytestmark = pytest.mark.process

SECONDS = 60


class Leases:
    """The leases of gateways, started and ended by the test."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def at(cls, url: str) -> "Leases":
        return cls(await connect(url, "test", {}))

    async def begin(self, keeper: str) -> None:
        await (await self._bucket()).put(keeper, b"")

    async def end(self, keeper: str) -> None:
        await (await self._bucket()).delete(keeper)

    async def aclose(self) -> None:
        await self._connection.close()

    async def _bucket(self) -> KeyValue:
        js = self._connection.jetstream()
        try:
            return await js.key_value(LEASES)
        except BucketNotFoundError:
            return await js.create_key_value(bucket=LEASES)


class Clock:
    """Changes only when a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Fleet:
    """The counters of several gateways, which the test can stop."""

    def __init__(self, url: str, leases: Leases) -> None:
        self._url, self._leases = url, leases
        self.clock = Clock()
        self.made: list[FleetCounter] = []

    def gateway(self) -> FleetCounter:
        keeper = f"keeper-{secrets.token_hex(8)}"
        counter = FleetCounter(
            self._url,
            keeper,
            lambda: self._leases.begin(keeper),
            clock=self.clock,
            reconnect_time_wait=0.02,
        )
        self.made.append(counter)
        return counter

    async def dies(self, counter: FleetCounter) -> None:
        """As after `kill -9`: it releases nothing, and its lease expires."""
        await counter.aclose()
        await self._leases.end(counter._keeper)

    async def falls_asleep(self, counter: FleetCounter) -> None:
        await self._leases.end(counter._keeper)

    async def wakes(self, counter: FleetCounter) -> None:
        await self._leases.begin(counter._keeper)

    async def aclose(self) -> None:
        for counter in self.made:
            await counter.aclose()


async def written(*counters: FleetCounter) -> None:
    """Waits until the numbers of these counters are stored."""
    for counter in counters:
        await until(lambda counter=counter: not counter._unwritten)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine NATS may seem unreachable."""
    monkeypatch.setattr(fleet, "NATS_TIMEOUT", 60.0)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with asyncio.Runner() as runner:
        server = runner.run(NatsServer().__aenter__())
        yield server
        runner.run(server.aclose())


@pytest.fixture
async def gateways(server: NatsServer) -> AsyncIterator[Fleet]:
    leases = await Leases.at(server.url)
    fleet = Fleet(server.url, leases)
    yield fleet
    await fleet.aclose()
    await leases.aclose()


@pytest.fixture
def name() -> str:
    """A limited name that no other test uses, with characters that NATS keys forbid."""
    return f"key Web & Söhne {secrets.token_hex(4)}"


async def test_slots_are_counted_over_all_gateways(gateways: Fleet, name: str) -> None:
    one, other = gateways.gateway(), gateways.gateway()
    assert await one.acquire(name, 2)
    assert await other.acquire(name, 2)
    assert not await one.acquire(name, 2)
    assert not await other.acquire(name, 2)
    one.release(name)
    await written(one)
    assert await other.acquire(name, 2)
    assert not await one.acquire(name, 2)


async def test_concurrent_requests_get_exactly_as_many_slots_as_the_limit(
    gateways: Fleet, name: str
) -> None:
    counters = [gateways.gateway() for _ in range(4)]
    asked = [counter.acquire(name, 7) for _ in range(5) for counter in counters]
    assert sum(await asyncio.gather(*asked)) == 7


async def test_the_slots_of_an_exited_gateway_become_free(gateways: Fleet, name: str) -> None:
    gone, stays, other = (gateways.gateway() for _ in range(3))
    assert [await gone.acquire(name, 3) for _ in range(2)] == [True, True]
    assert await stays.acquire(name, 3)
    assert not await other.acquire(name, 3)
    await gateways.dies(gone)
    assert [await other.acquire(name, 3) for _ in range(3)] == [True, True, False]


async def test_a_gateway_whose_lease_expired_gets_its_slots_back(
    gateways: Fleet, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "VERIFY_SECONDS", 0.02)
    sleeper, other = gateways.gateway(), gateways.gateway()
    assert await sleeper.acquire(name, 1)
    await gateways.falls_asleep(sleeper)
    assert await other.acquire(name, 1)
    other.release(name)
    await written(other)
    await gateways.wakes(sleeper)
    async with asyncio.timeout(SECONDS):
        while await other.acquire(name, 1):
            other.release(name)
            await written(other)
    sleeper.release(name)
    await written(sleeper)
    assert await other.acquire(name, 1)


async def test_a_forced_slot_counts_and_needs_no_free_slot(gateways: Fleet, name: str) -> None:
    one, other = gateways.gateway(), gateways.gateway()
    assert await one.acquire(name, 1)
    other.force_acquire(name)
    await written(other)
    one.release(name)
    await written(one)
    assert not await one.acquire(name, 1)
    other.release(name)
    await written(other)
    assert await one.acquire(name, 1)


async def test_a_cancelled_request_releases_its_slot(gateways: Fleet, name: str) -> None:
    one, other = gateways.gateway(), gateways.gateway()
    await one.spend(name, 1)
    update = one._entries.bucket.update

    async def cancelled_when_written(*args: Any, **more: Any) -> int:
        revision = await update(*args, **more)
        asking.cancel()
        await asyncio.sleep(0)
        return revision

    one._entries.bucket.update = cancelled_when_written
    asking = asyncio.create_task(one.acquire(name, 1))
    await asyncio.wait([asking])
    assert asking.cancelled()
    one._entries.bucket.update = update
    await written(one)
    assert await other.acquire(name, 1)


async def test_a_write_without_an_answer_releases_its_slot(
    gateways: Fleet, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "RETRY_SECONDS", 0.02)
    one, other = gateways.gateway(), gateways.gateway()
    await one.spend(name, 1)
    update = one._entries.bucket.update

    async def not_answered(*args: Any, **more: Any) -> int:
        await update(*args, **more)
        asking.cancel()
        raise TimeoutError

    one._entries.bucket.update = not_answered
    asking = asyncio.create_task(one.acquire(name, 1))
    await asyncio.wait([asking])
    await until(lambda: not one._away)
    await written(one)
    assert await other.acquire(name, 1)


async def test_a_cancelled_synchronization_task_is_started_again(
    gateways: Fleet, name: str
) -> None:
    one, other = gateways.gateway(), gateways.gateway()
    assert await one.acquire(name, 1)
    assert one._task is not None
    one._task.cancel()
    await asyncio.wait([one._task])
    one.release(name)
    await written(one)
    assert await other.acquire(name, 1)


async def test_a_rate_is_counted_over_all_gateways(gateways: Fleet, name: str) -> None:
    one, other = gateways.gateway(), gateways.gateway()
    spent = [await counter.spend(name, 4) for counter in (one, other) * 2]
    assert spent == [0.0] * 4
    assert [await counter.spend(name, 4) for counter in (one, other)] == [15.0, 15.0]
    gateways.clock.now += 15
    assert await other.spend(name, 4) == 0.0
    assert await one.spend(name, 4) == 15.0


async def test_concurrent_requests_are_admitted_up_to_the_rate(gateways: Fleet, name: str) -> None:
    counters = [gateways.gateway() for _ in range(3)]
    waits = await asyncio.gather(*(each.spend(name, 10) for _ in range(10) for each in counters))
    assert sum(wait == 0 for wait in waits) == 10


async def test_an_invalid_entry_is_replaced(gateways: Fleet, name: str) -> None:
    one = gateways.gateway()
    await one.spend(name, 1)
    for key in (name, f"rate {name}"):
        await one._entries.bucket.put(one._entry(key)._key, b"not JSON")
    assert await one.acquire(name, 1)
    assert await gateways.gateway().spend(name, 1) == 0.0


async def test_gateways_count_separately_while_nats_is_unreachable_and_together_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fleet, "RETRY_SECONDS", 0.02)
    caplog.set_level(logging.INFO, "windlass.gateway")
    async with NatsServer(store=tmp_path) as server:
        url, port = server.url, int(server.url.rpartition(":")[2])
        leases = await Leases.at(url)
        gateways = Fleet(url, leases)
        one, other = gateways.gateway(), gateways.gateway()
        assert await one.acquire("x", 1)
        assert await one.spend("x", 1) == 0.0
        assert not await other.acquire("x", 1)
        assert await other.spend("x", 1) > 0
        for counter in (one, other):
            counter._entries.bucket._js._timeout = 0.1
    assert await other.acquire("x", 1)
    assert await other.spend("x", 1) == 0.0
    assert await other.spend("x", 1) > 0
    assert not await other.acquire("x", 1)
    assert await other.acquire("y", 1)
    one.release("x")
    assert await one.acquire("x", 1)
    said = [record.message for record in caplog.records]
    assert len([each for each in said if each.startswith("NATS cannot be reached")]) == 2
    async with NatsServer(store=tmp_path, port=port):
        await until(lambda: not (one._away or other._away))
        await written(one, other)
        third = gateways.gateway()
        assert [await third.acquire("x", 3) for _ in range(2)] == [True, False]
        assert not await third.acquire("y", 1)
        third.release("x")
        await written(third)
        other.release("x")
        await written(other)
        assert not await other.acquire("x", 1)
        one.release("x")
        await written(one)
        assert await other.acquire("x", 1)
        await gateways.aclose()
        await leases.aclose()


async def test_requests_continue_while_nats_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def live() -> None:
        pass

    monkeypatch.setattr(fleet, "NATS_TIMEOUT", 0.05)
    counter = FleetCounter("nats://127.0.0.1:1", "keeper-x", live)
    assert [await counter.acquire("x", 1) for _ in range(2)] == [True, False]
    await counter.aclose()


NAMES = ("a", "b")
LIMIT = 3


class Places(RuleBasedStateMachine):
    """No slot is lost or invented, whatever gateways do and whichever exit."""

    server: NatsServer

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.leases = self.runner.run(Leases.at(self.server.url))
        self.fleet = Fleet(self.server.url, self.leases)
        self.names = [f"{name} {secrets.token_hex(8)}" for name in NAMES]
        self.held: dict[FleetCounter, list[str]] = {}
        self.joins()
        self.joins()

    def teardown(self) -> None:
        self.runner.run(self.fleet.aclose())
        self.runner.run(self.leases.aclose())
        self.runner.close()

    @precondition(lambda self: len(self.held) < 4)
    @rule()
    def joins(self) -> None:
        self.held[self.fleet.gateway()] = []

    @precondition(lambda self: len(self.held) > 1)
    @rule(who=st.integers(0, 3))
    def dies(self, who: int) -> None:
        counter = list(self.held)[who % len(self.held)]
        self.runner.run(self.fleet.dies(counter))
        del self.held[counter]

    @rule(asked=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=6))
    def ask_at_once(self, asked: list[tuple[int, int]]) -> None:
        counters = list(self.held)
        who = [(counters[each % len(counters)], self.names[name]) for each, name in asked]
        before = {name: self._taken(name) for name in self.names}

        async def ask() -> list[bool]:
            return await asyncio.gather(*(counter.acquire(name, LIMIT) for counter, name in who))

        for (counter, name), taken in zip(who, self.runner.run(ask()), strict=True):
            if taken:
                self.held[counter].append(name)
        for name in self.names:
            wanted = before[name] + sum(each == name for _, each in who)
            assert self._taken(name) == max(before[name], min(LIMIT, wanted))

    @rule(who=st.integers(0, 3), name=st.integers(0, 1))
    def takes_up(self, who: int, name: int) -> None:
        counter = list(self.held)[who % len(self.held)]

        async def hold() -> None:
            counter.force_acquire(self.names[name])
            await written(counter)

        self.runner.run(hold())
        self.held[counter].append(self.names[name])

    @rule(ends=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def give_back(self, ends: list[int]) -> None:
        async def give() -> None:
            for number in ends:
                slots = [(counter, n) for counter in self.held for n in self.held[counter]]
                if slots:
                    counter, name = slots[number % len(slots)]
                    self.held[counter].remove(name)
                    counter.release(name)
            await written(*self.held)

        self.runner.run(give())

    def _taken(self, name: str) -> int:
        return list(itertools.chain(*self.held.values())).count(name)


class TestPlaces(Places.TestCase):
    settings = settings(
        max_examples=25, stateful_step_count=15, derandomize=True, deadline=None, database=None
    )

    @pytest.fixture(autouse=True)
    def _on_the_server(self, server: NatsServer) -> None:
        Places.server = server
