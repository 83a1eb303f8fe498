"""A reader's place in a run that another process writes."""

import weakref
from collections.abc import Awaitable, Callable

import msgspec

from windlass.events import RunEvent
from windlass.messaging.connection import Msg
from windlass.runs.jetstream.streams import Streams, subject_of
from windlass.runs.log import PollingFollower
from windlass.runs.records import RunRecord

__all__ = ["stream_follower"]

LOOK_SECONDS = 1.0
"""How often the stream is looked into when nobody has said that there is something."""

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
        self.tells: weakref.ref[PollingFollower] | None = None

    async def after(self, number: int) -> list[RunEvent] | None:
        """The events behind that number; None if there will never be any."""
        await self._listen()
        found: list[RunEvent] = []
        async for message, data in self._streams.batches(self._run_id, self._next):
            self._next = message + 1
            found += [event for event in _events.decode(data) if event.seq > number]
        if not found and not self._looked_up:
            self._looked_up = True
            record = await self._known()
            if record.ended is not None and record.events <= number:
                return None
        return found

    async def _listen(self) -> None:
        """The stream's own messages pass by as they are written; the news is that there is one."""
        follower = self.tells and self.tells()
        if self._listening or follower is None:
            return
        self._listening = True
        connection = await self._streams.connection()
        tells = weakref.ref(follower)

        async def heard(_: Msg) -> None:
            if (told := tells()) is not None:
                told.hurry()

        weakref.finalize(follower, await connection.subscribe(subject_of(self._run_id), heard))
