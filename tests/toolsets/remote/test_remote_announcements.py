"""Repeated announcements of workers: accepted as long as they stay the same."""

from collections.abc import Callable

import pytest

from windlass.messaging.connection import Connection
from windlass.toolsets.remote import subjects
from windlass.toolsets.remote.bridge import Bridge
from windlass.toolsets.remote.frames import (
    REPLY,
    Announcement,
    CallRefused,
    ToolSpec,
    decode,
    encode,
)

GOOD = ToolSpec(name="look", parameters={"type": "object", "properties": {}})


def announcement(session: str, *tools: ToolSpec, worker: str = "w") -> bytes:
    return encode(Announcement(worker=worker, session=session, tools=tools))


async def reason_against(wire: Connection, session: str, frame: bytes) -> str:
    """Why the worker `w` is refused with this."""
    refused = decode(await wire.request(subjects.announce(session, "w"), frame, 5.0), REPLY)
    assert isinstance(refused, CallRefused)
    return refused.reason


@pytest.fixture
async def bridge(bridge_of: Callable[..., Bridge]) -> Bridge:
    made = bridge_of()
    await made.start()
    return made


async def test_a_worker_that_repeats_its_announcement_keeps_its_tools(
    bridge: Bridge, wire: Connection, session: str
) -> None:
    for _ in range(2):
        await wire.publish(subjects.announce(session, "w"), announcement(session, GOOD))
    assert await bridge.specs(session) == [GOOD]


async def test_a_registered_worker_cannot_announce_an_invalid_schema_later(
    bridge: Bridge, wire: Connection, session: str
) -> None:
    await wire.publish(subjects.announce(session, "w"), announcement(session, GOOD))
    broken = ToolSpec(name="look", parameters={"type": "nonsense"})
    assert "'look'" in await reason_against(wire, session, announcement(session, broken))
    assert await bridge.specs(session) == [GOOD]


async def test_a_registered_worker_cannot_announce_another_worker(
    bridge: Bridge, wire: Connection, session: str
) -> None:
    await wire.publish(subjects.announce(session, "w"), announcement(session, GOOD))
    other = announcement(session, GOOD, worker="other")
    assert f"an announcement for {session}/other" in await reason_against(wire, session, other)
