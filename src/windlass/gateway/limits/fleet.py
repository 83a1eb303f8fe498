"""What limits count over a fleet: in JetStream, one entry for each thing that has a limit.

An entry of places says how many each gateway holds. A gateway writes its own number alone, always
the whole of it: a write that was lost, or came twice, is put right by the next. The numbers of
gateways that are gone, as their leases say, do not count. Requests that come at once are counted by
one write, so that gateways meet at an entry once in a round trip, however many ask.
"""

import asyncio
import functools
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from windlass.errors import WindlassError
from windlass.gateway.config import RunsConfig
from windlass.gateway.limits.buckets import Entries, Entry
from windlass.gateway.limits.coalescing import Desk
from windlass.gateway.limits.counters import Bucket, LocalTally, Tally
from windlass.messaging.connection import NatsError
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.protocol import RunLog

__all__ = ["FleetTally", "fleet_tally"]

log = logging.getLogger("windlass.gateway")

PATIENCE = 2.0
"""Seconds that a request waits for NATS; then it is counted here alone."""
AGAIN_SECONDS = 1.0
"""How often NATS is looked for while it is away."""
LOOK_SECONDS = 5.0
"""How often a gateway looks whether its numbers stand as it wrote them."""

T = TypeVar("T")
Holders: TypeAlias = dict[str, int]


def fleet_tally(config: RunsConfig, kept: RunLog) -> Tally:
    """The tally of gateways whose runs are in one JetStream; any other counts for itself."""
    if not isinstance(kept, JetStreamLog):
        return LocalTally()
    options: dict[str, Any] = {"user_credentials": config.creds} if config.creds else {}

    async def live() -> None:
        await kept.live()
        tally.rename(kept.keeper)

    tally = FleetTally(list(config.nats), kept.keeper, live, replicas=config.replicas, **options)
    return tally


class FleetTally:
    """Counts what all gateways do; while NATS is away, what this one does. For one event loop."""

    def __init__(
        self,
        servers: str | list[str],
        keeper: str,
        live: Callable[[], Awaitable[None]],
        *,
        replicas: int = 1,
        clock: Callable[[], float] = time.time,
        **connection: Any,
    ) -> None:
        """`keeper` is the name of this process's lease, and `live` begins to keep it.

        Nothing is connected before something is counted; `connection` goes to `nats.connect`.
        """
        self._keeper, self._live, self._clock = keeper, live, clock
        self._entries = Entries(servers, replicas, PATIENCE, connection)
        self._here = LocalTally()
        self._rates: dict[tuple[str, int], Desk[float | None]] = {}
        self._places: dict[tuple[str, int], Desk[bool | None]] = {}
        self._unwritten: set[str] = set()
        """Names of which this gateway may hold another number than is written."""
        self._ready, self._news = asyncio.Event(), asyncio.Event()
        self._away = self._closed = False
        self._task: asyncio.Task[None] | None = None

    def rename(self, keeper: str) -> None:
        """Before anything is counted: a fork has another name than the process that made it."""
        self._keeper = keeper

    async def spend(self, name: str, per_minute: int) -> float:
        desk = self._rates.get((name, per_minute))
        if desk is None:
            work = functools.partial(self._spent, per_minute)
            serve = self._serving(f"rate {name}", work)
            desk = self._rates[name, per_minute] = Desk(serve, lambda _: None)
        seconds = await desk.ask()
        return await self._here.spend(name, per_minute) if seconds is None else seconds

    async def take(self, name: str, most: int) -> bool:
        desk = self._places.get((name, most))
        if desk is None:
            work = functools.partial(self._taken, name, most)
            desk = self._places[name, most] = Desk(
                self._serving(name, work), lambda taken: self.give_back(name) if taken else None
            )
        taken = await desk.ask()
        if taken is None and (taken := await self._here.take(name, most)):
            self._write_soon(name)
        return taken

    def hold(self, name: str) -> None:
        self._here.hold(name)
        self._write_soon(name)

    def give_back(self, name: str) -> None:
        self._here.give_back(name)
        self._write_soon(name)

    async def aclose(self) -> None:
        """What is still held ends with the lease."""
        self._closed = True
        self._news.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._entries.aclose()

    def _serving(
        self, name: str, work: Callable[[Entry, int], Awaitable[Sequence[T]]]
    ) -> Callable[[int], Awaitable[Sequence[T | None]]]:
        """What comes of the work for so many; nothing for each of them while NATS is away."""

        async def serve(many: int) -> Sequence[T | None]:
            if not self._away:
                self._begin()
                try:
                    async with asyncio.timeout(PATIENCE):
                        await self._ready.wait()
                    entry = self._entry(name)
                    async with entry.lock:
                        return await work(entry, many)
                except (NatsError, TimeoutError) as error:
                    self._lost(error)
            return [None] * many

        return serve

    async def _spent(self, per_minute: int, entry: Entry, many: int) -> Sequence[float]:
        while True:
            now = self._clock()
            bucket = entry.value(Bucket) or Bucket(per_minute, now)
            bucket, taken, seconds = bucket.less(many, per_minute, now)
            # Where nothing was left when it was last seen, others have not left more.
            if not taken or await entry.write(bucket):
                return [0.0] * taken + [seconds] * (many - taken)
            await entry.read()

    async def _taken(self, name: str, most: int, entry: Entry, many: int) -> Sequence[bool]:
        try:
            taken = await self._granted(entry, name, most, many)
        except BaseException:
            self._write_soon(name)  # they may have been written
            raise
        for _ in range(taken):
            self._here.hold(name)
        return [True] * taken + [False] * (many - taken)

    async def _granted(self, entry: Entry, name: str, most: int, many: int) -> int:
        """How many of so many there is room for beside what the others hold: they are written."""
        fresh = False
        gone: set[str] = set()
        while True:
            others = {each: n for each, n in self._others(entry).items() if each not in gone}
            room = most - sum(others.values()) - self._here.places[name]
            granted = min(many, max(0, room))
            if granted == many or fresh:
                if granted < many:
                    dead = {each for each in others if not await self._entries.lives(each)}
                    if dead:
                        gone |= dead
                        continue
                if not granted or await self._wrote(entry, name, others, granted):
                    return granted
            await entry.read()
            fresh = True

    async def _put_right(self, name: str) -> None:
        """Sees to it that what is written is what is held here."""
        entry = self._entry(name)
        async with entry.lock:
            fresh = False
            while True:
                written = (entry.value(Holders) or {}).get(self._keeper, 0)
                if written != self._here.places[name]:
                    if await self._wrote(entry, name, self._others(entry)):
                        return
                elif fresh:
                    self._unwritten.discard(name)
                    return
                await entry.read()
                fresh = True

    async def _wrote(self, entry: Entry, name: str, others: Holders, more: int = 0) -> bool:
        held = self._here.places[name]
        number = held + more
        if not await entry.write({**others, self._keeper: number} if number else others):
            return False
        if self._here.places[name] == held:
            self._unwritten.discard(name)
        return True

    def _others(self, entry: Entry) -> Holders:
        holders = entry.value(Holders) or {}
        return {each: number for each, number in holders.items() if each != self._keeper}

    def _entry(self, name: str) -> Entry:
        """A name is any text; a key in NATS is not."""
        return self._entries.of(hashlib.sha256(name.encode()).hexdigest()[:32])

    def _write_soon(self, name: str) -> None:
        self._unwritten.add(name)
        self._begin()
        self._news.set()

    def _begin(self) -> None:
        if (self._task is None or self._task.done()) and not self._closed:
            self._task = asyncio.create_task(self._keep_up(), name="windlass limits")

    async def _keep_up(self) -> None:
        """Writes what has changed here, and finds NATS again when it was away."""
        # A cancellation that comes together with an answer of NATS is lost.
        while not self._closed:
            self._news.clear()
            try:
                if not self._ready.is_set():
                    await self._live()
                    await self._entries.open()
                while self._unwritten:
                    await self._put_right(next(iter(self._unwritten)))
            except (NatsError, TimeoutError, WindlassError) as error:
                self._lost(error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._found()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                # Others may have taken this gateway for dead, or NATS may have lost what it had.
                self._unwritten.update(self._here.places)

    def _lost(self, error: Exception) -> None:
        self._ready.clear()
        self._news.set()
        if not self._away and not self._closed:
            self._away = True
            said = str(error) or type(error).__name__
            log.warning("NATS is away, and limits count this gateway alone: %s", said)

    def _found(self) -> None:
        self._ready.set()
        if self._away:
            self._away = False
            log.info("Limits count the whole fleet again")
