"""Chats as a list shows them: made of what is known of their runs. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from windlass.runs.records import RunRecord

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
    """The chats that the runs are parts of, the last used first."""
    chats: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=lambda record: record.created):
        if record.chat:
            chats.setdefault(record.chat, []).append(record)
    made = [_chat(chat, runs) for chat, runs in chats.items()]
    return sorted(made, key=lambda chat: chat.updated, reverse=True)


def _chat(chat: str, runs: list[RunRecord]) -> ChatRecord:
    first, last = runs[0], runs[-1]
    return ChatRecord(
        id=chat,
        title=first.title,
        model=last.model,
        created=first.created,
        updated=max(run.ended or run.created for run in runs),
        runs=len(runs),
        running=any(run.ended is None for run in runs),
    )
