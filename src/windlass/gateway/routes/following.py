"""Follows the log of a run for one client, which streams from it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from windlass.errors import StorageError
from windlass.events import RunEvent
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import Receive, disconnected
from windlass.runs.event_log import Follower


class FollowedLog:
    """The events of a run, until its end, a disconnect of the client, or a shutdown."""

    def __init__(self, gateway: Gateway, events: Follower | None, gone: asyncio.Task[None]) -> None:
        """The task `gone` ends when the client disconnects."""
        self._gateway, self._events, self._disconnect = gateway, events, gone
        self.is_over = events is None
        """Whether all events of the run have been read."""
        self.has_more = events is not None
        """Whether another batch may have events."""

    @property
    def client_gone(self) -> bool:
        return self._disconnect.done()

    async def batch(self) -> Sequence[RunEvent]:
        """The next events; none when a heartbeat is due."""
        if self._events is None:
            return ()
        drained = self._gateway.drained
        try:
            batch = await self._events.some(
                0.0 if drained else self._gateway.config.server.heartbeat
            )
        except StorageError:
            self.has_more = False
            return ()
        self.is_over = self._events.over
        # After a shutdown another gateway resumes the run, and the client reconnects there.
        self.has_more = not (self.is_over or (drained and not batch))
        return batch


@contextlib.asynccontextmanager
async def followed(
    gateway: Gateway, events: Follower | None, receive: Receive
) -> AsyncGenerator[FollowedLog]:
    """Follows events, or none, while the client is connected. A shutdown ends the wait."""
    gone = asyncio.create_task(disconnected(receive))
    if events is not None:
        gone.add_done_callback(lambda _: events.wake())
        gateway.followers.add(events)
    try:
        yield FollowedLog(gateway, events, gone)
    finally:
        gone.cancel()
        if events is not None:
            gateway.followers.discard(events)
