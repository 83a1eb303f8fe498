"""Chats as a list shows them: made of what is known of their runs. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from windlass.runs.records import RunRecord, start_order

__all__ = ["ChatRecord", "chats_in"]


class ChatRecord(Struct, frozen=True, kw_only=True):
    """What is known of a chat without reading what was said. Times are Unix seconds."""

    id: str
    title: str
    """The first words of its first question."""
    model: str
    """Of its last run."""
    created: float
    updated: float
    """When its last run ended, or began, if it is active."""
    runs: int
    running: bool
    """Whether a run of it has not ended."""


def chats_in(records: Iterable[RunRecord]) -> list[ChatRecord]:
    """The chats that the runs are parts of, those first whose last run began last."""
    chats: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=start_order):
        if record.chat:
            chats.setdefault(record.chat, []).append(record)
    newest = sorted(chats.items(), key=lambda chat: start_order(chat[1][-1]), reverse=True)
    return [_chat(chat, runs) for chat, runs in newest]


def _chat(chat: str, runs: list[RunRecord]) -> ChatRecord:
    first, last = runs[0], runs[-1]
    return ChatRecord(
        id=chat,
        title=first.title,
        model=last.model,
        created=first.created,
        updated=last.ended or last.created,
        runs=len(runs),
        running=any(run.ended is None for run in runs),
    )
