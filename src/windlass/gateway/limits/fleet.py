"""Limits of a fleet of gateways, counted in JetStream: one shared entry for each limited name.

The entry of a limit on active runs maps each gateway to the number of slots that it holds. A
gateway writes only its own number, and always the absolute number, so the next write corrects a
lost or repeated one. Numbers of gateways whose lease has expired do not count. Requests that arrive
at the same time share one write, so a gateway updates an entry at most once per round trip.
"""

import asyncio
import functools
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from nats.js.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from windlass.errors import StorageError, WindlassError
from windlass.gateway.config import RunsConfig
from windlass.gateway.limits.admission import LimitCounter, LocalCounter, TokenBucket
from windlass.gateway.limits.budgets import Spending
from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection, NatsError, connect
from windlass.runs.jetstream import JetStreamLog
from windlass.runs.jetstream.streams import LEASES
from windlass.runs.protocol import RunLog

log = logging.getLogger("windlass.gateway")

NATS_TIMEOUT = 2.0
"""Seconds that a request waits for NATS before it is counted locally."""
RETRY_SECONDS = 1.0
"""The pause between attempts to reach NATS."""
VERIFY_SECONDS = 5.0
"""How often a gateway checks that its stored numbers are still correct."""
BUCKET = "WINDLASS_LIMITS"

T = TypeVar("T")
Holders: TypeAlias = dict[str, int]


def fleet_counter(config: RunsConfig, run_log: RunLog) -> LimitCounter:
    """The shared counter of gateways that store their runs in one JetStream.

    Any other gateway gets a local counter.
    """
    if not isinstance(run_log, JetStreamLog):
        return LocalCounter()
    options: dict[str, Any] = {"user_credentials": config.creds} if config.creds else {}

    async def live() -> None:
        await run_log.live()
        counter.rename(run_log.process_name)

    counter = FleetCounter(
        list(config.nats), run_log.process_name, live, replicas=config.replicas, **options
    )
    return counter


class FleetCounter:
    """Counts for all gateways; while NATS is unreachable, for this one. Used in one event loop."""

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
        """`keeper` is the name of this process's lease, and `live` starts to renew it.

        Connects when it first counts something; `connection` goes to `nats.connect`.
        """
        self._keeper, self._live, self._clock = keeper, live, clock
        self._entries = SharedEntries(servers, replicas, NATS_TIMEOUT, connection)
        self._local = LocalCounter()
        self._rates: dict[tuple[str, int], Coalescer[float | None]] = {}
        self._slots: dict[tuple[str, int], Coalescer[bool | None]] = {}
        self._unwritten: set[str] = set()
        """Names whose stored number may differ from this gateway's number."""
        self._ready, self._changed = asyncio.Event(), asyncio.Event()
        self._away = self._closed = False
        self._task: asyncio.Task[None] | None = None

    def rename(self, keeper: str) -> None:
        """Changes the lease's name, before anything is counted: a forked process gets its own."""
        self._keeper = keeper

    async def spend(self, name: str, per_minute: int) -> float:
        requests = self._rates.get((name, per_minute))
        if requests is None:
            work = functools.partial(self._spend_shared, per_minute)
            serve = self._shared(f"rate {name}", work)
            requests = self._rates[name, per_minute] = Coalescer(serve, lambda _: None)
        seconds = await requests.request()
        return await self._local.spend(name, per_minute) if seconds is None else seconds

    async def acquire(self, name: str, limit: int) -> bool:
        requests = self._slots.get((name, limit))
        if requests is None:
            work = functools.partial(self._acquire_shared, name, limit)
            requests = self._slots[name, limit] = Coalescer(
                self._shared(name, work), lambda acquired: self.release(name) if acquired else None
            )
        acquired = await requests.request()
        if acquired is None and (acquired := await self._local.acquire(name, limit)):
            self._write_soon(name)
        return acquired

    def force_acquire(self, name: str) -> None:
        self._local.force_acquire(name)
        self._write_soon(name)

    def release(self, name: str) -> None:
        self._local.release(name)
        self._write_soon(name)

    async def update_spending(self, name: str, change: Callable[[Spending], Spending]) -> Spending:
        """Changes the entry of a key, which all gateways share. Raises `StorageError`."""

        async def update(entry: "SharedEntry") -> Spending:
            while True:
                changed = change(entry.value(Spending) or Spending())
                if await entry.write(changed):
                    return changed
                await entry.read()

        return await self._spending(name, update)

    async def read_spending(self, name: str) -> Spending:
        async def read(entry: "SharedEntry") -> Spending:
            await entry.read()
            return entry.value(Spending) or Spending()

        return await self._spending(name, read)

    async def _spending(
        self, name: str, work: Callable[["SharedEntry"], Awaitable[Spending]]
    ) -> Spending:
        if self._away:
            raise StorageError("NATS cannot be reached")
        self._begin()
        try:
            async with asyncio.timeout(NATS_TIMEOUT):
                await self._ready.wait()
            entry = self._entry(f"budget {name}")
            async with entry.lock:
                return await work(entry)
        except (NatsError, TimeoutError) as error:
            self._disconnected(error)
            raise StorageError("NATS cannot be reached") from error

    async def aclose(self) -> None:
        """Slots that are still held are released when the lease expires."""
        self._closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._entries.aclose()

    def _shared(
        self, name: str, work: Callable[["SharedEntry", int], Awaitable[Sequence[T]]]
    ) -> Callable[[int], Awaitable[Sequence[T | None]]]:
        """Wraps `work` on a shared entry. Returns None for each request if NATS is unreachable."""

        async def serve(count: int) -> Sequence[T | None]:
            if not self._away:
                self._begin()
                try:
                    async with asyncio.timeout(NATS_TIMEOUT):
                        await self._ready.wait()
                    entry = self._entry(name)
                    async with entry.lock:
                        return await work(entry, count)
                except (NatsError, TimeoutError) as error:
                    self._disconnected(error)
            return [None] * count

        return serve

    async def _spend_shared(
        self, per_minute: int, entry: "SharedEntry", count: int
    ) -> Sequence[float]:
        while True:
            now = self._clock()
            bucket = entry.value(TokenBucket) or TokenBucket(per_minute, now)
            bucket, spent, seconds = bucket.spend(count, per_minute, now)
            # Other gateways only spend: a bucket that was empty here cannot hold more now.
            if not spent or await entry.write(bucket):
                return [0.0] * spent + [seconds] * (count - spent)
            await entry.read()

    async def _acquire_shared(
        self, name: str, limit: int, entry: "SharedEntry", count: int
    ) -> Sequence[bool]:
        try:
            granted = await self._grant(entry, name, limit, count)
        except BaseException:
            self._write_soon(name)  # the number may have been written
            raise
        for _ in range(granted):
            self._local.force_acquire(name)
        return [True] * granted + [False] * (count - granted)

    async def _grant(self, entry: "SharedEntry", name: str, limit: int, count: int) -> int:
        """Takes up to `count` slots that other gateways leave free, and returns their number."""
        fresh = False
        expired: set[str] = set()
        while True:
            others = {each: n for each, n in self._others(entry).items() if each not in expired}
            free = limit - sum(others.values()) - self._local.slots[name]
            granted = min(count, max(0, free))
            if granted == count or fresh:
                if granted < count:
                    dead = {each for each in others if not await self._entries.is_alive(each)}
                    if dead:
                        expired |= dead
                        continue
                if not granted or await self._write(entry, name, others, granted):
                    return granted
            await entry.read()
            fresh = True

    async def _correct(self, name: str) -> None:
        """Makes the stored number equal to this gateway's number."""
        entry = self._entry(name)
        async with entry.lock:
            fresh = False
            while True:
                written = (entry.value(Holders) or {}).get(self._keeper, 0)
                if written != self._local.slots[name]:
                    if await self._write(entry, name, self._others(entry)):
                        return
                elif fresh:
                    self._unwritten.discard(name)
                    return
                await entry.read()
                fresh = True

    async def _write(self, entry: "SharedEntry", name: str, others: Holders, more: int = 0) -> bool:
        held = self._local.slots[name]
        number = held + more
        if not await entry.write({**others, self._keeper: number} if number else others):
            return False
        if self._local.slots[name] == held:
            self._unwritten.discard(name)
        return True

    def _others(self, entry: "SharedEntry") -> Holders:
        holders = entry.value(Holders) or {}
        return {each: number for each, number in holders.items() if each != self._keeper}

    def _entry(self, name: str) -> "SharedEntry":
        """The entry's key is a hash: NATS restricts the characters of keys."""
        return self._entries.of(hashlib.sha256(name.encode()).hexdigest()[:32])

    def _write_soon(self, name: str) -> None:
        self._unwritten.add(name)
        self._begin()
        self._changed.set()

    def _begin(self) -> None:
        if (self._task is None or self._task.done()) and not self._closed:
            self._task = asyncio.create_task(self._synchronize(), name="windlass limits")

    async def _synchronize(self) -> None:
        """Writes changed numbers, and reconnects after NATS was unreachable."""
        # A loop on `_closed`: a cancellation that arrives with an answer of NATS is lost.
        while not self._closed:
            self._changed.clear()
            try:
                if not self._ready.is_set():
                    await self._live()
                    await self._entries.open()
                while self._unwritten:
                    await self._correct(next(iter(self._unwritten)))
            except (NatsError, TimeoutError, WindlassError) as error:
                self._disconnected(error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._connected()
            try:
                async with asyncio.timeout(VERIFY_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                # Others may have assumed that this gateway exited, or NATS may have lost data.
                self._unwritten.update(self._local.slots)

    def _disconnected(self, error: Exception) -> None:
        self._ready.clear()
        self._changed.set()
        if not self._away and not self._closed:
            self._away = True
            cause = str(error) or type(error).__name__
            log.warning("NATS cannot be reached; limits count this gateway alone: %s", cause)

    def _connected(self) -> None:
        self._ready.set()
        if self._away:
            self._away = False
            log.info("Limits count the whole fleet again")


class SharedEntries:
    """Entries of a JetStream bucket that gateways share. Every method raises `NatsError`."""

    def __init__(
        self, servers: str | list[str], replicas: int, timeout: float, options: dict[str, Any]
    ) -> None:
        """`timeout` limits the seconds of one request to NATS."""
        self._servers, self._replicas, self._timeout = servers, replicas, timeout
        self._options = options
        self._connection: Connection | None = None
        self._leases: KeyValue
        self._known: dict[str, SharedEntry] = {}
        self.bucket: KeyValue

    async def open(self) -> None:
        """Connects, and creates the bucket if it is missing. Raises `ConfigError` too."""
        if self._connection is None or self._connection.closed:
            self._connection = await connect(self._servers, "windlass limits", self._options)
        js = self._connection.jetstream(self._timeout)
        self._leases = await js.key_value(LEASES)
        try:
            self.bucket = await js.key_value(BUCKET)
        except BucketNotFoundError:
            self.bucket = await js.create_key_value(  # pyright: ignore[reportUnknownMemberType]
                bucket=BUCKET, replicas=self._replicas
            )

    def of(self, key: str) -> "SharedEntry":
        return self._known.setdefault(key, SharedEntry(self, key))

    async def is_alive(self, keeper: str) -> bool:
        """Whether the lease of this gateway is valid."""
        try:
            await self._leases.get(keeper)
        except KeyNotFoundError:
            return False
        return True

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class SharedEntry:
    """One entry, with the last read value and revision. Hold `lock` to change it."""

    def __init__(self, entries: SharedEntries, key: str) -> None:
        self._entries, self._key = entries, key
        self._data, self._revision = b"", 0
        self.lock = asyncio.Lock()

    def value(self, kind: type[T]) -> T | None:
        """None for a missing or invalid value."""
        try:
            return msgspec.json.decode(self._data, type=kind)
        except msgspec.DecodeError:
            return None

    async def read(self) -> None:
        try:
            found = await self._entries.bucket.get(self._key)
        except KeyNotFoundError:
            self._data, self._revision = b"", 0
        else:
            self._data, self._revision = found.value or b"", found.revision or 0

    async def write(self, value: object) -> bool:
        """Replaces the last read value. Returns False if another gateway has changed it since."""
        data = encode_json(value)
        try:
            self._revision = await self._entries.bucket.update(self._key, data, self._revision)
        except KeyWrongLastSequenceError:
            return False
        self._data = data
        return True


class Coalescer(Generic[T]):
    """Serves requests that arrive at the same time together.

    `serve` returns their answers at once. `unwanted` gets the answer of a cancelled request.
    """

    def __init__(
        self, serve: Callable[[int], Awaitable[Sequence[T]]], unwanted: Callable[[T], None]
    ) -> None:
        self._serve, self._unwanted = serve, unwanted
        self._waiting: list[asyncio.Future[T]] = []
        self._serving: asyncio.Task[None] | None = None

    async def request(self) -> T:
        """The answer to one request. Raises what `serve` raises."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve_all())
        try:
            return await answer
        except asyncio.CancelledError:
            # The answer may have arrived together with the cancellation.
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._unwanted(answer.result())
            raise

    async def _serve_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                answers = await self._serve(len(waiting))
            except Exception as error:  # noqa: BLE001 - raised to the waiters
                for each in waiting:
                    if not each.done():
                        each.set_exception(error)
                continue
            for each, answer in zip(waiting, answers, strict=True):
                if each.done():
                    self._unwanted(answer)
                else:
                    each.set_result(answer)
        self._serving = None
