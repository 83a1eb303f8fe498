"""What is known of runs beside their events, and which of them are no longer kept. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from windlass.content import Message
from windlass.events import StopReason

__all__ = [
    "DAMAGED",
    "Order",
    "Retention",
    "RunRecord",
    "chosen",
    "expired",
    "place_of",
    "title_of",
]

TITLE_CHARS = 80
DAMAGED: dict[str, Any] = {"kind": "damaged"}
"""The origin of a run whose own cannot be read."""


class RunRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a run without reading its events."""

    id: str
    model: str
    created: float
    """By the clock of the process that began it, which may step: `number` gives the order."""
    number: int = 0
    """The later a run began in its log, the larger; 0 if a version without numbers began it."""
    owner: str = ""
    """Whose it is: the name of a gateway's key."""
    chat: str = ""
    """The conversation that it is a part of, if it is of one."""
    title: str = ""
    """The first words of what was asked."""
    origin: dict[str, Any] = {}
    """What its maker needs to make its plan again; plain JSON, never a secret."""
    ended: float | None = None
    reason: StopReason | None = None
    error: str | None = None
    events: int = 0
    size: int = 0
    """Bytes that its events take."""


class Retention(Struct, frozen=True, kw_only=True):
    """How long ended runs are kept. None is no limit; runs that go are always kept."""

    max_age: float | None = None
    """Seconds since the end."""
    max_runs: int | None = None
    max_bytes: int | None = None


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody asks of the process that a run goes in."""

    kind: Literal["stop", "approve"]
    call_id: str = ""
    approved: bool = True
    arguments: dict[str, Any] | None = None
    reason: str | None = None


def chosen(
    records: Iterable[RunRecord],
    *,
    owner: str | None,
    chat: str | None,
    open: bool | None,
    before: RunRecord | None,
    limit: int | None,
) -> Sequence[RunRecord]:
    """The matching runs, newest first; `before` is the run that the list begins after.

    None means no filter.
    """
    newest = sorted(records, key=place_of, reverse=True)
    found = [
        record
        for record in newest
        if owner in (None, record.owner)
        and chat in (None, record.chat)
        and open in (None, record.ended is None)
        and (before is None or place_of(record) < place_of(before))
    ]
    return found[:limit]


def place_of(record: RunRecord) -> tuple[int, float]:
    """Sorts runs by when they began."""
    return record.number, record.created


def expired(ended: Iterable[RunRecord], retention: Retention, now: float) -> Sequence[RunRecord]:
    """Those of the ended runs that are not to be kept. The newest ends are kept."""
    size = 0
    gone: list[RunRecord] = []
    for position, record in enumerate(_by_end(ended)):
        size += record.size
        if (
            (retention.max_age is not None and now - (record.ended or 0.0) > retention.max_age)
            or (retention.max_runs is not None and position >= retention.max_runs)
            or (retention.max_bytes is not None and size > retention.max_bytes)
        ):
            gone.append(record)
    return gone


def _by_end(ended: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """The newest end first.

    Ends are only known by the clock, which may have stepped back since earlier runs. A run ended
    after it began, and that was after the beginning of every run before it: so its end counts as
    not before any of these.
    """
    latest = -math.inf
    keys: list[tuple[float, int, RunRecord]] = []
    for position, record in enumerate(sorted(ended, key=place_of)):
        latest = max(latest, record.created)
        keys.append((max(latest, record.ended or 0.0), position, record))
    return [record for _, _, record in sorted(keys, key=lambda key: key[:2], reverse=True)]


def title_of(messages: Sequence[Message]) -> str:
    """The first words of what the user said last."""
    said = next((message.text for message in reversed(messages) if message.role == "user"), "")
    words = " ".join(said[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else f"{words[: TITLE_CHARS - 1]}…"
