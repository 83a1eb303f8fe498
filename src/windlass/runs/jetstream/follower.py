"""A reader's place in a run that another process writes."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable

import msgspec

from windlass.events import RunEvent
from windlass.messaging.connection import Msg
from windlass.runs.jetstream.streams import Streams, subject_of
from windlass.runs.records import RunRecord

__all__ = ["JetStreamFollower"]

LOOK_SECONDS = 1.0
"""How often the stream is looked into when nobody has said that there is something."""

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])


class JetStreamFollower:
    """Reads the stream, and hears of news as it is written."""

    def __init__(
        self,
        streams: Streams,
        run_id: str,
        position: int,
        known: Callable[[], Awaitable[RunRecord]],
    ) -> None:
        """`known` raises `RunNotFound` if there is no such run."""
        self._streams, self._run_id = streams, run_id
        self._position: int = position
        self._known = known
        self._next = 1
        self._here: list[RunEvent] = []
        self._ended: bool = False
        self._news = asyncio.Event()
        self._woken = self._listening = self._looked_up = False

    def __aiter__(self) -> "JetStreamFollower":
        return self

    async def __anext__(self) -> RunEvent:
        while not self._here:
            if self._ended:
                raise StopAsyncIteration
            self._here = (await self.some(3600.0))[::-1]
        return self._here.pop()

    @property
    def over(self) -> bool:
        return self._ended and not self._here

    async def some(self, seconds: float) -> list[RunEvent]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        await self._listen()
        while not self._ended:
            self._news.clear()
            if events := await self._read():
                return events
            left = end - loop.time()
            if self._ended or left <= 0:
                break
            try:
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await self._news.wait()
            except TimeoutError:
                continue
            if self._woken:
                break
        self._woken = False
        return []

    def wake(self) -> None:
        self._woken = True
        self._news.set()

    async def _read(self) -> list[RunEvent]:
        found: list[RunEvent] = []
        async for number, data in self._streams.batches(self._run_id, self._next):
            self._next = number + 1
            found += [event for event in _events.decode(data) if event.seq > self._position]
        if found:
            self._position = found[-1].seq
            self._ended = found[-1].done
        elif not self._looked_up:
            self._looked_up = True
            record = await self._known()
            self._ended = record.ended is not None and record.events <= self._position
        return found

    async def _listen(self) -> None:
        """The stream's own messages pass by as they are written; the news is that there is one."""
        if self._listening:
            return
        self._listening = True
        connection = await self._streams.connection()
        news = weakref.ref(self._news)

        async def heard(_: Msg) -> None:
            if (event := news()) is not None:
                event.set()

        stop = await connection.subscribe(subject_of(self._run_id), heard)
        weakref.finalize(self, stop)
