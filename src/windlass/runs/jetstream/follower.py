"""Follows a run that another process writes."""

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

POLL_SECONDS = 1.0
"""How often to read the stream without a notification."""
RETRY_SECONDS = 0.02
"""The first delay after a notification whose message cannot be read yet; it doubles each time."""
MAX_RETRIES = 5
SKIP_BYTES = 2**20

_events: msgspec.json.Decoder[list[RunEvent]] = msgspec.json.Decoder(list[RunEvent])


def stream_follower(
    streams: Streams, run_id: str, after: int, status: Callable[[], Awaitable[RunRecord]]
) -> PollingFollower:
    """Follows a run's stream, and subscribes to its new messages.

    `status` raises `RunNotFound` if there is no such run.
    """
    reader = _StreamReader(streams, run_id, status)
    follower = PollingFollower(reader.after, after, POLL_SECONDS)
    reader.follower = weakref.ref(follower)
    return follower


class _StreamReader:
    """Reads the stream page by page, and wakes the follower when there is more."""

    def __init__(
        self, streams: Streams, run_id: str, status: Callable[[], Awaitable[RunRecord]]
    ) -> None:
        self._streams, self._run_id, self._status = streams, run_id, status
        self._next = 1
        self._listening = self._checked = False
        self._retries = MAX_RETRIES
        """How often a read after the last notification found nothing."""
        self.follower: weakref.ref[PollingFollower] | None = None

    async def after(self, number: int) -> list[RunEvent] | None:
        """Returns the next page of events after a number; None if no more will come."""
        await self._listen()
        found = await self._page_after(number)
        if not found:
            self._retry_later()
        if not found and not self._checked:
            self._checked = True
            record = await self._status()
            if record.ended is not None and record.events <= number:
                return None
        return found

    async def _page_after(self, number: int) -> list[RunEvent]:
        found: list[RunEvent] = []
        size = 0
        # A returning reader skips what it has read before, in larger pages.
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

    def _retry_later(self) -> None:
        """Reads again soon: subscribers receive a message before every server has stored it."""
        if self._retries < MAX_RETRIES:
            loop = asyncio.get_running_loop()
            loop.call_later(RETRY_SECONDS * 2**self._retries, self._hurry)
            self._retries += 1

    def _hurry(self) -> None:
        if self.follower is not None and (follower := self.follower()) is not None:
            follower.hurry()

    async def _listen(self) -> None:
        """Subscribes to the stream's messages, which notify of new events."""
        follower = self.follower and self.follower()
        if self._listening or follower is None:
            return
        self._listening = True
        connection = await self._streams.connection()

        async def notify(_: Msg) -> None:
            self._retries = 0
            self._hurry()

        weakref.finalize(follower, await connection.subscribe(subject_of(self._run_id), notify))
