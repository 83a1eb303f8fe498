"""The numbered event log of a run, in memory: written once, read by any number, from any number."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import TypeAlias

from msgspec.structs import replace

from windlass.events import RunEvent

__all__ = ["Follower", "MemoryLog"]


_Listener: TypeAlias = tuple[Callable[[RunEvent], None], Collection[type[RunEvent]] | None]


class MemoryLog:
    """Belongs to one event loop: it is written and followed there."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._events: list[RunEvent] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[_Listener] = []
        self.ended = False

    def recorded(self) -> tuple[RunEvent, ...]:
        """The events so far."""
        return tuple(self._events)

    def append(self, event: RunEvent) -> None:
        """Numbers the event and tells the readers. After the last event there is no other."""
        if self.ended:
            return
        numbered = replace(event, seq=len(self._events) + 1, time=self._clock())
        self._events.append(numbered)
        if numbered.done:
            self.ended = True
        kind = type(event)
        for listener, kinds in self._listeners:
            if kinds is None or kind in kinds:
                listener(numbered)
        while self._waiters:
            _wake(self._waiters.pop())

    def listen(
        self,
        listener: Callable[[RunEvent], None],
        after: int = 0,
        kinds: Collection[type[RunEvent]] | None = None,
    ) -> Callable[[], None]:
        """Calls `listener` with every event after number `after`, from those already here on.

        `kinds` are the events that it is to hear of, if not all; they may change on the way.
        Returns the call that ends it.
        """
        for event in self._events[after:]:
            if kinds is None or type(event) in kinds:
                listener(event)
        entry = (listener, kinds)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def follow(self, after: int = 0) -> "Follower":
        """Every event after number `after`, as it comes, up to the run's last."""
        return Follower(self._events, self._waiters, after)


class Follower:
    """A reader's place in a log. Not a generator: one that is left behind needs no closing."""

    def __init__(
        self, events: list[RunEvent], waiters: list[asyncio.Future[None]], position: int
    ) -> None:
        self._events = events
        self._waiters = waiters
        self._position = position

    def __aiter__(self) -> "Follower":
        return self

    async def __anext__(self) -> RunEvent:
        while self._position >= len(self._events):
            if self._events and self._events[-1].done:
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        event = self._events[self._position]
        self._position += 1
        return event

    async def some(self, seconds: float) -> list[RunEvent]:
        """What has come since the last time, waited for if it is nothing.

        Empty when the time is up, and when the log has ended.
        """
        if self._position >= len(self._events) and not (self._events and self._events[-1].done):
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiters.append(waiter)
            alarm = loop.call_later(seconds, _wake, waiter)
            try:
                await waiter
            finally:
                alarm.cancel()
        events = self._events[self._position :]
        self._position = len(self._events)
        return events

    def wake(self) -> None:
        """Lets a reader that waits in `some` go on with what there is."""
        while self._waiters:
            _wake(self._waiters.pop())


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
