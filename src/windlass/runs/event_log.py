"""The numbered events of one run. Any number of readers can follow them, from any event number."""

import asyncio
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol, Self, TypeAlias

from msgspec.structs import replace

from windlass.errors import WindlassError, raisable
from windlass.events import RunEvent
from windlass.runs.buffer import EventBuffer
from windlass.runs.records import Order

PAGE_EVENTS = 512
PAGE_BYTES = 2**16
"""A reader holds about one page of a log in memory. A larger event is a page by itself."""

_Listener: TypeAlias = tuple[
    Callable[[RunEvent], None], Collection[type[RunEvent]] | None, Callable[[], None] | None
]
Take: TypeAlias = Callable[[Sequence[RunEvent]], bool]
"""Handles events at once. False leaves them, unhandled, to the reader's task."""


class Follower(Protocol):
    """A reader's position in a log. It is not a generator, so it does not need to be closed."""

    def __aiter__(self) -> "Follower": ...
    async def __anext__(self) -> RunEvent: ...

    async def some(self, seconds: float) -> list[RunEvent]:
        """Returns the next page of events, and waits up to `seconds` if there are none.

        The page is empty after the time is up, and after the end of the log.
        """
        ...

    @property
    def over(self) -> bool:
        """Whether all events have been read and no more will come."""
        ...

    def wake(self) -> None:
        """Makes a waiting `some` return the available events now."""
        ...


class MemoryLog:
    """The events of a run of this process. Belongs to one event loop."""

    def __init__(
        self, events: Iterable[RunEvent] = (), clock: Callable[[], float] | None = None
    ) -> None:
        """`clock` replaces the system clock. Event times in a log never decrease."""
        self._events = EventBuffer(events)
        self.published = len(self._events)
        """How many events the readers can read."""
        last = self._events[-1].time if self.published else 0.0
        self._now = _steady_clock(last) if clock is None else _not_decreasing(clock, last)
        self._waiters: list[_Waiter] = []
        self._listeners: list[_Listener] = []
        self.ended = self.published > 0 and self._events[-1].done
        self.closed = False
        """Whether the log was closed before the run ended: it was detached, or the log failed."""
        self.failure: WindlassError | None = None
        """Why the log failed; None if it has not."""
        self.on_order: Callable[[Order], None] | None = None
        """Called with each order that arrives through the log."""
        self.on_failure: Callable[[], None] | None = None
        """Called when the log fails."""
        self.in_use = False
        """Whether the run's task still uses the log, perhaps after it was closed."""

    @property
    def settled(self) -> Callable[[], Awaitable[None]] | None:
        """Waits until all appended events are stored; None if the log does not store events.

        Closing the log without a failure cancels the waiters.
        """
        return None

    def recorded(self) -> Sequence[RunEvent]:
        """Returns the events so far. Later events do not change the returned sequence."""
        return self._events.recorded()

    @property
    def numbered(self) -> int:
        """How many events have a number. Readers may not have received the last of them yet."""
        return self.published

    def append(self, event: RunEvent) -> None:
        """Numbers the event and sends it to the readers. Ignores events after the last one."""
        self.extend((event,))

    def extend(self, events: Sequence[RunEvent]) -> None:
        """Appends events that arrived together. They get the same time."""
        if not events or self.ended or self.closed:
            return
        self.ended = events[-1].done
        now, first = self._now(), self.published + 1
        if len(events) == 1:  # most often: one token at a time
            self._publish((replace(events[0], seq=first, time=now),))
        else:
            self._publish(
                [replace(event, seq=n, time=now) for n, event in enumerate(events, first)]
            )

    def listen(
        self,
        listener: Callable[[RunEvent], None],
        after: int = 0,
        kinds: Collection[type[RunEvent]] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener` with every event after number `after`, both past and future ones.

        `kinds`, if given, selects event types, and may change later. `on_close` is called if the
        log closes before the run ends. Returns a function that removes the listener.
        """
        for event in self._events.between(after, self.published):
            if kinds is None or type(event) in kinds:
                listener(event)
        entry = (listener, kinds, on_close)
        if not self._over:
            self._listeners.append(entry)
        elif self.closed and on_close is not None:
            on_close()
        return lambda: self._dismiss(entry)

    def follow(self, after: int = 0) -> "MemoryFollower":
        """Follows every event after number `after`, up to the run's last."""
        return MemoryFollower(self, after)

    def close(self, failure: WindlassError | None = None) -> None:
        """Closes the log without ending the run. Readers receive its events, then `failure`."""
        self.closed, self.failure = True, failure
        if failure is not None and self.on_failure is not None:
            self.on_failure()
        for _, _, on_close in self._listeners:
            if on_close is not None:
                on_close()
        self._listeners.clear()
        self.wake()

    def release(self) -> None:
        """Removes the run's callbacks. Called when the run's task has ended."""
        self.in_use = False
        self.on_order = self.on_failure = None

    @property
    def _over(self) -> bool:
        """Whether no more events will come. Then listeners are dropped, to avoid cycles."""
        return self.closed or (self.published > 0 and self._events[-1].done)

    def _dismiss(self, entry: _Listener) -> None:
        if entry in self._listeners:
            self._listeners.remove(entry)

    def _publish(self, events: Sequence[RunEvent]) -> None:
        self._events.extend(events)
        self.published += len(events)
        for event in events if self._listeners else ():
            kind = type(event)
            for listener, kinds, _ in self._listeners:
                if kinds is None or kind in kinds:
                    listener(event)
        if self.ended and events[-1].done:
            self._listeners.clear()
        if self._waiters:
            self._waiters[:] = [each for each in self._waiters if each.takes(events)]

    def wake(self) -> None:
        """Wakes the tasks of all readers that wait for events."""
        while self._waiters:
            self._waiters.pop().release()


class _Waiter:
    """A reader that waits for the next events of a log."""

    __slots__ = ("_take", "future")

    def __init__(self, take: Take | None = None) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._take = take

    def takes(self, events: Sequence[RunEvent]) -> bool:
        """Whether the reader has handled the events and still waits. Otherwise wakes its task."""
        try:
            if self._take is not None and not self.future.done() and self._take(events):
                return True
        except Exception as error:  # noqa: BLE001 - it is the reader's error, not the run's
            self.future.set_exception(error)
        self.release()
        return False

    def release(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class MemoryFollower:
    """A position in a `MemoryLog`."""

    def __init__(self, log: MemoryLog, position: int) -> None:
        self._log = log
        self._events = log._events  # pyright: ignore[reportPrivateUsage]
        self._waiters = log._waiters  # pyright: ignore[reportPrivateUsage]
        self._position = position
        self._page: list[RunEvent] = []
        """The next events, last event first."""

    def __aiter__(self) -> "MemoryFollower":
        return self

    async def __anext__(self) -> RunEvent:
        if not self._page:
            while self._position >= self._log.published:
                if self._over():
                    raise StopAsyncIteration
                waiter = _Waiter()
                self._waiters.append(waiter)
                await waiter.future
            self._page = self._events[self._position : self._position + PAGE_EVENTS][::-1]
        self._position += 1
        return self._page.pop()

    async def some(self, seconds: float, take: Take | None = None) -> list[RunEvent]:
        """Returns the next page, as in `Follower`.

        While it waits, `take` receives new events in the step that publishes them, so that a token
        needs no step of the reader's task. Events that `take` handles are not returned.
        """
        self._page = []
        if self._position >= self._log.published and not self._over():
            waiter = _Waiter(take and functools.partial(self._taken, take))
            self._waiters.append(waiter)
            alarm = asyncio.get_running_loop().call_later(seconds, waiter.release)
            try:
                await waiter.future
            finally:
                alarm.cancel()
        # The position may be ahead: the reader may have read these events from another log.
        events = self._events[self._position : self._position + PAGE_EVENTS]
        self._position += len(events)
        return events

    @property
    def over(self) -> bool:
        return self._position >= self._log.published and self._over()

    def wake(self) -> None:
        self._log.wake()

    def _taken(self, take: Take, events: Sequence[RunEvent]) -> bool:
        """Passes the events on if they are the next ones. Whether they are handled."""
        count = len(events)
        if self._log.published - count != self._position or not take(events):
            return False
        self._position += count
        return True

    def _over(self) -> bool:
        if self._log.failure is not None:
            raise raisable(self._log.failure)
        return self._log.closed or (bool(self._events) and self._events[-1].done)


class BatchFollower(ABC):
    """A follower that gets events in batches, and returns them one by one when it is iterated."""

    def __init__(self) -> None:
        self._unread: list[RunEvent] = []
        """The next events, last event first."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            self._unread = (await self.some(3600.0))[::-1]
        return self._unread.pop()

    @property
    def over(self) -> bool:
        return self._ended and not self._unread

    @property
    @abstractmethod
    def _ended(self) -> bool:
        """Whether all events have been fetched."""

    @abstractmethod
    async def some(self, seconds: float) -> list[RunEvent]:
        """The next events; none if there are none within that time."""


class PollingFollower(BatchFollower):
    """A position in a log that another process writes. Reads the log at intervals.

    `hurry` makes it read at once.
    """

    def __init__(
        self,
        read: Callable[[int], Awaitable[list[RunEvent] | None]],
        position: int,
        interval: float = 0.025,
    ) -> None:
        """`read` returns the events after a number; None after the last event of the log."""
        super().__init__()
        self._read = read
        self._position = position
        self._interval = interval
        self._has_ended = self._woken = False
        self._news = asyncio.Event()

    async def some(self, seconds: float) -> list[RunEvent]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._has_ended:
            self._news.clear()
            events = await self._read(self._position)
            if events is None:
                self._has_ended = True
                break
            if events:
                self._position = events[-1].seq
                self._has_ended = events[-1].done
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
    def _ended(self) -> bool:
        return self._has_ended

    def wake(self) -> None:
        self._woken = True
        self._news.set()

    def hurry(self) -> None:
        """Reads now instead of after the interval."""
        self._news.set()


def _steady_clock(after: float) -> Callable[[], float]:
    """Returns a clock that starts at the current Unix time, or at `after` if that is later, and
    never steps."""
    start = max(time.time(), after) - time.monotonic()
    return lambda: start + time.monotonic()


def _not_decreasing(clock: Callable[[], float], last: float) -> Callable[[], float]:
    """Returns a clock that never steps back: it repeats its last time instead."""

    def now() -> float:
        nonlocal last
        last = max(last, clock())
        return last

    return now
