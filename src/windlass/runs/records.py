"""The records of runs: their metadata, filters, and retention. Pure."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, TypedDict

from msgspec import Struct

from windlass.content import Message
from windlass.events import StopReason

TITLE_CHARS = 80
DAMAGED: dict[str, Any] = {"kind": "damaged"}
"""The origin of a run whose stored origin is unreadable."""


class RunRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The metadata of a run."""

    id: str
    model: str
    created: float
    """Unix time by the clock of the process that began it. `number` gives the order of runs."""
    number: int = 0
    """Increases with every run of a log; 0 in runs of versions without numbers."""
    owner: str = ""
    """The name of the gateway key that started it."""
    chat: str = ""
    """The id of its chat, if it belongs to one."""
    title: str = ""
    """The first words of the prompt."""
    origin: dict[str, Any] = {}
    """What is needed to plan the run again when it is resumed; plain JSON, never a secret."""
    ended: float | None = None
    reason: StopReason | None = None
    error: str | None = None
    events: int = 0
    size: int = 0
    """The size of its events in bytes."""


class Retention(Struct, frozen=True, kw_only=True):
    """How long ended runs are stored. None means no limit. Active runs are always stored."""

    max_age: float | None = None
    """Seconds since the end."""
    max_runs: int | None = None
    max_bytes: int | None = None


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to the process that owns a run: to stop it, or to approve a call."""

    kind: Literal["stop", "approve"]
    call_id: str = ""
    approved: bool = True
    arguments: dict[str, Any] | None = None
    reason: str | None = None


class RunFilters(TypedDict, total=False):
    """The fields of a `RunFilter`, as keyword arguments."""

    owner: str | None
    chat: str | None
    in_chats: bool
    open: bool | None
    reasons: Collection[StopReason] | None
    model: str | None
    title: str | None


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs a list contains. None means no filter."""

    owner: str | None = None
    chat: str | None = None
    in_chats: bool = False
    """The run belongs to a chat."""
    open: bool | None = None
    reasons: Collection[StopReason] | None = None
    """The run has ended for one of these reasons."""
    model: str | None = None
    title: str | None = None
    """A part of the title; the case does not matter."""

    def matches(self, record: RunRecord) -> bool:
        return (
            self.open in (None, record.ended is None)
            and (self.reasons is None or record.reason in self.reasons)
            and self.may_match(record)
        )

    def may_match(self, record: RunRecord) -> bool:
        """Whether the run matches, apart from whether and why it has ended."""
        return (
            self.owner in (None, record.owner)
            and self.chat in (None, record.chat)
            and bool(record.chat or not self.in_chats)
            and self.model in (None, record.model)
            and (not self.title or self.title.casefold() in record.title.casefold())
        )


def newest_first(
    records: Iterable[RunRecord], before: RunRecord | None, limit: int | None
) -> Sequence[RunRecord]:
    """Sorts the runs, the newest first. With `before`, the list starts after that run."""
    newest = sorted(records, key=start_order, reverse=True)
    if before is not None:
        newest = [record for record in newest if start_order(record) < start_order(before)]
    return newest[:limit]


def start_order(record: RunRecord) -> tuple[int, float]:
    """A sort key: the order in which runs began."""
    return record.number, record.created


def expired(ended: Iterable[RunRecord], retention: Retention, now: float) -> Sequence[RunRecord]:
    """Returns the ended runs that exceed the retention. Those that ended last stay."""
    size = 0
    too_old: list[RunRecord] = []
    for position, record in enumerate(_by_end(ended)):
        size += record.size
        if (
            (retention.max_age is not None and now - (record.ended or 0.0) > retention.max_age)
            or (retention.max_runs is not None and position >= retention.max_runs)
            or (retention.max_bytes is not None and size > retention.max_bytes)
        ):
            too_old.append(record)
    return too_old


def _by_end(ended: Iterable[RunRecord]) -> Sequence[RunRecord]:
    """Sorts runs by their ends, the newest first.

    The end is a clock time, and the clock may have stepped back since earlier runs. A run ends
    after it began, and it began after every run before it. So its end counts as no earlier than
    any of these starts.
    """
    latest = -math.inf
    keys: list[tuple[float, int, RunRecord]] = []
    for position, record in enumerate(sorted(ended, key=start_order)):
        latest = max(latest, record.created)
        keys.append((max(latest, record.ended or 0.0), position, record))
    return [record for _, _, record in sorted(keys, key=lambda key: key[:2], reverse=True)]


def title_of(messages: Sequence[Message]) -> str:
    """Returns the first words of the last user message."""
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    words = " ".join(text[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else f"{words[: TITLE_CHARS - 1]}…"
