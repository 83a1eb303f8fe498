"""The numbered events of one run: written once, read by any number of readers, from any number."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from windlass.errors import WindlassError, raisable
from windlass.events import RunEvent
from windlass.runs.buffer import EventBuffer
from windlass.runs.records import Order

__all__ = [
    "PAGE_BYTES",
    "PAGE_EVENTS",
    "Follower",
    "MemoryFollower",
    "MemoryLog",
    "PollingFollower",
]

PAGE_EVENTS = 512
PAGE_BYTES = 2**16
"""A reader holds about one page of a log, however far behind it is. A larger event is a page."""

_Listener: TypeAlias = tuple[
    Callable[[RunEvent], None], Collection[type[RunEvent]] | None, Callable[[], None] | None
]


class Follower(Protocol):
    """A reader's place in a log. Not a generator: one that is left behind needs no closing."""

    def __aiter__(self) -> "Follower": ...
    async def __anext__(self) -> RunEvent: ...

    async def some(self, seconds: float) -> list[RunEvent]:
        """The next page of what has come since the last time, waited for if there is nothing.

        Empty when the time is up, and when the log has ended.
        """
        ...

    @property
    def over(self) -> bool:
        """Whether everything has been read that will ever come here."""
        ...

    def wake(self) -> None:
        """Lets a reader that waits in `some` go on with what there is."""
        ...


class MemoryLog:
    """The events of a run that goes in this process. Belongs to one event loop."""

    def __init__(
        self, events: Iterable[RunEvent] = (), clock: Callable[[], float] | None = None
    ) -> None:
        """`clock` replaces that of the machine. The times of a log never decrease."""
        self._events = EventBuffer(events)
        self._time = self._events[-1].time if self._events else 0.0
        self._clock = clock or _steady_clock(self._time)
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[_Listener] = []
        self.ended = bool(self._events) and self._events[-1].done
        self.closed = False
        """Nothing more comes here, though the run has not ended: it was left, or its log failed."""
        self.failure: WindlassError | None = None
        """Why the log cannot go on, if it cannot."""
        self.on_order: Callable[[Order], None] | None = None
        """What the run does with an order that reaches it through its log."""
        self.on_failure: Callable[[], None] | None = None
        """What the run does when its log fails."""
        self.in_use = False
        """Whether the task of a run still works with it; also after it was closed."""

    @property
    def settled(self) -> Callable[[], Awaitable[None]] | None:
        """Waits until all that was appended is kept; None in a log that keeps nothing.

        A waiter in a log that is closed without a failure is cancelled.
        """
        return None

    def recorded(self) -> Sequence[RunEvent]:
        """The events so far; later ones do not change it."""
        return self._events.recorded()

    @property
    def numbered(self) -> int:
        """How many events have a number; readers here may not have been told of the last ones."""
        return len(self._events)

    def append(self, event: RunEvent) -> None:
        """Numbers the event and tells the readers. After the last event there is no other."""
        if self.ended or self.closed:
            return
        self.ended = event.done
        self._publish(replace(event, seq=len(self._events) + 1, time=self._now()))

    def listen(
        self,
        listener: Callable[[RunEvent], None],
        after: int = 0,
        kinds: Collection[type[RunEvent]] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener` with every event after number `after`, from those already here on.

        `kinds` are the events that it is to hear of, if not all; they may change on the way.
        `on_close` is called if nothing more comes though the run has not ended. Returns the call
        that ends it, which may come after the log has ended.
        """
        for event in self._events.between(after, len(self._events)):
            if kinds is None or type(event) in kinds:
                listener(event)
        entry = (listener, kinds, on_close)
        if not self._over:
            self._listeners.append(entry)
        elif self.closed and on_close is not None:
            on_close()
        return lambda: self._dismiss(entry)

    def follow(self, after: int = 0) -> "MemoryFollower":
        """Every event after number `after`, as it comes, up to the run's last."""
        return MemoryFollower(self, after)

    def close(self, failure: WindlassError | None = None) -> None:
        """Ends the log here without ending the run. Readers get what is there, then `failure`."""
        self.closed, self.failure = True, failure
        if failure is not None and self.on_failure is not None:
            self.on_failure()
        for _, _, on_close in self._listeners:
            if on_close is not None:
                on_close()
        self._listeners.clear()
        self._wake()

    def release(self) -> None:
        """The task of the run has ended: nothing of it is called any more."""
        self.in_use = False
        self.on_order = self.on_failure = None

    @property
    def _over(self) -> bool:
        """Whether listeners have heard everything: they may hold what holds this log."""
        return self.closed or (bool(self._events) and self._events[-1].done)

    def _now(self) -> float:
        self._time = max(self._time, self._clock())
        return self._time

    def _dismiss(self, entry: _Listener) -> None:
        if entry in self._listeners:
            self._listeners.remove(entry)

    def _publish(self, event: RunEvent) -> None:
        self._events.append(event)
        kind = type(event)
        for listener, kinds, _ in self._listeners:
            if kinds is None or kind in kinds:
                listener(event)
        if event.done:
            self._listeners.clear()
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            _release(self._waiters.pop())


class MemoryFollower:
    """A place in a `MemoryLog`."""

    def __init__(self, log: MemoryLog, position: int) -> None:
        self._log = log
        self._events = log._events  # pyright: ignore[reportPrivateUsage]
        self._waiters = log._waiters  # pyright: ignore[reportPrivateUsage]
        self._position = position

    def __aiter__(self) -> "MemoryFollower":
        return self

    async def __anext__(self) -> RunEvent:
        while self._position >= len(self._events):
            if self._over():
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        event = self._events[self._position]
        self._position += 1
        return event

    async def some(self, seconds: float) -> list[RunEvent]:
        if self._position >= len(self._events) and not self._over():
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.append(waiter)
            alarm = loop.call_later(seconds, _release, waiter)
            try:
                await waiter
            finally:
                alarm.cancel()
        # The position may be ahead: a reader has read elsewhere what is about to come here.
        events = self._events[self._position : self._position + PAGE_EVENTS]
        self._position += len(events)
        return events

    @property
    def over(self) -> bool:
        return self._position >= len(self._events) and self._over()

    def wake(self) -> None:
        while self._waiters:
            _release(self._waiters.pop())

    def _over(self) -> bool:
        if self._log.failure is not None:
            raise raisable(self._log.failure)
        return self._log.closed or (bool(self._events) and self._events[-1].done)


class PollingFollower:
    """A place in a log that another process writes: looked into again and again.

    Whoever hears that there is something new says so by `hurry`.
    """

    def __init__(
        self,
        read: Callable[[int], Awaitable[list[RunEvent] | None]],
        position: int,
        interval: float = 0.025,
    ) -> None:
        """`read` gives what comes after a number: None if nothing ever will."""
        self._read = read
        self._position = position
        self._interval = interval
        self._here: list[RunEvent] = []
        self._ended = self._woken = False
        self._news = asyncio.Event()

    def __aiter__(self) -> "PollingFollower":
        return self

    async def __anext__(self) -> RunEvent:
        while not self._here:
            if self._ended:
                raise StopAsyncIteration
            self._here = (await self.some(3600.0))[::-1]
        return self._here.pop()

    async def some(self, seconds: float) -> list[RunEvent]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._ended:
            self._news.clear()
            events = await self._read(self._position)
            if events is None:
                self._ended = True
                break
            if events:
                self._position = events[-1].seq
                self._ended = events[-1].done
                return events
            left = end - loop.time()
            if left <= 0 or self._woken:
                break
            try:
                async with asyncio.timeout(min(left, self._interval)):
                    await self._news.wait()
            except TimeoutError:
                pass
        self._woken = False
        return []

    @property
    def over(self) -> bool:
        return self._ended and not self._here

    def wake(self) -> None:
        self._woken = True
        self._news.set()

    def hurry(self) -> None:
        """Looks now, and not when the time has come."""
        self._news.set()


def _steady_clock(after: float) -> Callable[[], float]:
    """Unix time that does not step: the time now, or `after` if that is later, and from then on
    the seconds that pass."""
    start = max(time.time(), after) - time.monotonic()
    return lambda: start + time.monotonic()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
