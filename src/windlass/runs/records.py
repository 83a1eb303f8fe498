"""What is known of runs beside their events, and which of them are no longer kept. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from windlass.content import Message
from windlass.events import StopReason

__all__ = ["DAMAGED", "Order", "Retention", "RunRecord", "chosen", "expired", "title_of"]

TITLE_CHARS = 80
DAMAGED: dict[str, Any] = {"kind": "damaged"}
"""The origin of a run whose own cannot be read."""


class RunRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a run without reading its events."""

    id: str
    model: str
    created: float
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
    before: float | None,
    limit: int | None,
) -> Sequence[RunRecord]:
    """Those that are asked for, newest first; `before` is a time. None does not choose."""
    newest = sorted(records, key=lambda record: record.created, reverse=True)
    found = [
        record
        for record in newest
        if owner in (None, record.owner)
        and chat in (None, record.chat)
        and open in (None, record.ended is None)
        and (before is None or record.created < before)
    ]
    return found[:limit]


def expired(ended: Sequence[RunRecord], retention: Retention, now: float) -> Sequence[RunRecord]:
    """Those of the ended runs, newest end first, that are not to be kept."""
    size = 0
    for position, record in enumerate(newest := sorted(ended, key=_end, reverse=True)):
        size += record.size
        if (
            (retention.max_age is not None and now - _end(record) > retention.max_age)
            or (retention.max_runs is not None and position >= retention.max_runs)
            or (retention.max_bytes is not None and size > retention.max_bytes)
        ):
            return newest[position:]
    return ()


def _end(record: RunRecord) -> float:
    return record.ended or 0.0


def title_of(messages: Sequence[Message]) -> str:
    """The first words of what the user said last."""
    said = next((message.text for message in reversed(messages) if message.role == "user"), "")
    words = " ".join(said[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else f"{words[: TITLE_CHARS - 1]}…"
