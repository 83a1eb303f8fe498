"""Lists chats from the records of their runs. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from windlass.runs.records import RunRecord, start_order


class ChatRecord(Struct, frozen=True, kw_only=True):
    """The metadata of a chat. Times are Unix seconds."""

    id: str
    title: str
    """The first words of its first prompt."""
    model: str
    """The model of its last run."""
    created: float
    updated: float
    """When its last run ended, or began if it is active."""
    runs: int
    running: bool
    """Whether it has an active run."""


def chats_in(records: Iterable[RunRecord]) -> list[ChatRecord]:
    """Returns the chats of the runs, the last used first."""
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
