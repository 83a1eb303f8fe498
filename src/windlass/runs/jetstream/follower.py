"""A reader's place in a run that another process writes."""

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable

import msgspec

from windlass.events import RunEvent
from windlass.messaging.connection import Msg
from windlass.runs.event_log import PAGE_BYTES, PAGE_EVENTS, PollingFollower
from windlass.runs.jetstream.streams import Streams, subject_of
from windlass.runs.records import RunRecord

__all__ = ["stream_follower"]

LOOK_SECONDS = 1.0
"""How often the stream is looked into when nobody has said that there is something."""
SOON_SECONDS = 0.02
"""When what was heard is not there yet, it is looked for again after this, then twice this, ..."""
MOST_LOOKS = 5
SKIP_BYTES = 2**20

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])


def stream_follower(
    streams: Streams, run_id: str, after: int, known: Callable[[], Awaitable[RunRecord]]
) -> PollingFollower:
    """Reads the stream, and hears of news as it is written.

    `known` raises `RunNotFound` if there is no such run.
    """
    reading = _Reading(streams, run_id, known)
    follower = PollingFollower(reading.after, after, LOOK_SECONDS)
    reading.tells = weakref.ref(follower)
    return follower


class _Reading:
    """What has been read of the stream, and who is told that there is more."""

    def __init__(
        self, streams: Streams, run_id: str, known: Callable[[], Awaitable[RunRecord]]
    ) -> None:
        self._streams, self._run_id, self._known = streams, run_id, known
        self._next = 1
        self._listening = self._looked_up = False
        self._looks = MOST_LOOKS
        """How often what was heard of last has been looked for in vain."""
        self.tells: weakref.ref[PollingFollower] | None = None

    async def after(self, number: int) -> list[RunEvent] | None:
        """The next page of events behind that number; None if there will never be any."""
        await self._listen()
        found = await self._page_after(number)
        if not found:
            self._look_again()
        if not found and not self._looked_up:
            self._looked_up = True
            record = await self._known()
            if record.ended is not None and record.events <= number:
                return None
        return found

    async def _page_after(self, number: int) -> list[RunEvent]:
        found: list[RunEvent] = []
        size = 0
        # A reader that comes back skips what it has read, in larger pieces.
        at_a_time = SKIP_BYTES if number and self._next == 1 else PAGE_BYTES
        batches = self._streams.batches(self._run_id, self._next, max_bytes=at_a_time)
        async with contextlib.aclosing(batches):
            async for message, data in batches:
                self._next = message + 1
                found += [event for event in _events.decode(data) if event.seq > number]
                size += len(data) if found else 0
                if len(found) >= PAGE_EVENTS or size >= PAGE_BYTES:
                    break
        return found

    def _look_again(self) -> None:
        """A message passes by before it is kept, and before every server has it."""
        if self._looks < MOST_LOOKS:
            loop = asyncio.get_running_loop()
            loop.call_later(SOON_SECONDS * 2**self._looks, self._hurry)
            self._looks += 1

    def _hurry(self) -> None:
        if self.tells is not None and (follower := self.tells()) is not None:
            follower.hurry()

    async def _listen(self) -> None:
        """The stream's own messages pass by as they are written; the news is that there is one."""
        follower = self.tells and self.tells()
        if self._listening or follower is None:
            return
        self._listening = True
        connection = await self._streams.connection()

        async def heard(_: Msg) -> None:
            self._looks = 0
            self._hurry()

        weakref.finalize(follower, await connection.subscribe(subject_of(self._run_id), heard))
