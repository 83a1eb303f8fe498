"""What is asked of the file: the events of a run, and what is known of runs."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.errors import RunNotFound
from windlass.events import RunEvent
from windlass.runs.persisted_log import Damaged
from windlass.runs.records import DAMAGED, RunRecord

__all__ = ["events_after", "open_runs", "orders", "orders_of", "record_of", "records"]

_RECORD = "id, model, created, owner, chat, title, origin, ended, reason, error, events, size"
_BATCHES = """
    SELECT data FROM batches WHERE run_id = :run AND last > :after AND first >= (
        SELECT ifnull(max(first), 0) FROM batches WHERE run_id = :run AND first <= :after + 1
    ) ORDER BY first
"""
"""Goes straight to the number: whoever follows a log looks for its end again and again."""
_events = msgspec.json.Decoder(list[RunEvent])
_origin = msgspec.json.Decoder(dict[str, Any])


def events_after(
    connection: sqlite3.Connection, run_id: str, after: int, limit: int | None
) -> tuple[list[RunEvent], bool]:
    """The events after that number, and whether the run has ended: then nothing else comes.

    Raises `RunNotFound`, and `Damaged` for events that cannot be understood.
    """
    # Before the events are: what has ended by now has all of them.
    ended = _has_ended(connection, run_id)
    events: list[RunEvent] = []
    rows = connection.execute(_BATCHES, {"run": run_id, "after": after})
    for (data,) in rows:
        events += _decoded(run_id, data)
        if limit is not None and len(events) >= limit:
            break
    rows.close()
    return [event for event in events if event.seq > after], ended


def record_of(connection: sqlite3.Connection, run_id: str) -> RunRecord:
    """Raises `RunNotFound`."""
    return _record(_row_of(connection, run_id, _RECORD))


def records(
    connection: sqlite3.Connection,
    *,
    owner: str | None,
    chat: str | None,
    open: bool | None,
    before: float | None,
    limit: int | None,
) -> Sequence[RunRecord]:
    """The chosen runs, newest first."""
    conditions, values = ["TRUE"], list[Any]()
    for condition, value in (("owner = ?", owner), ("chat = ?", chat), ("created < ?", before)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if open is not None:
        conditions.append("ended IS NULL" if open else "ended IS NOT NULL")
    query = (
        f"SELECT {_RECORD} FROM runs WHERE {' AND '.join(conditions)} ORDER BY created DESC LIMIT ?"
    )
    values.append(-1 if limit is None else limit)
    return [_record(row) for row in connection.execute(query, values).fetchall()]


def open_runs(connection: sqlite3.Connection) -> list[tuple[RunRecord, int]]:
    """The runs that have not ended, oldest first, each with the number of its keeper."""
    query = f"SELECT {_RECORD}, keeper FROM runs WHERE ended IS NULL ORDER BY created"
    return [(_record(row[:-1]), row[-1]) for row in connection.execute(query).fetchall()]


def orders(connection: sqlite3.Connection) -> list[tuple[int, str, bytes, bool]]:
    """What was asked of runs, in that order: number, run, order, and whether the run has ended."""
    query = (
        "SELECT orders.id, run_id, data, ended IS NOT NULL FROM orders"
        " JOIN runs ON runs.id = run_id ORDER BY orders.id"
    )
    return connection.execute(query).fetchall()


def orders_of(connection: sqlite3.Connection, run_id: str) -> list[tuple[int, bytes]]:
    """What was asked of one run: number and order, oldest first."""
    query = "SELECT id, data FROM orders WHERE run_id = ? ORDER BY id"
    return connection.execute(query, (run_id,)).fetchall()


def _has_ended(connection: sqlite3.Connection, run_id: str) -> bool:
    """Without the rest of what is known: whoever follows a run asks again and again."""
    return bool(_row_of(connection, run_id, "ended IS NOT NULL")[0])


def _row_of(connection: sqlite3.Connection, run_id: str, columns: str) -> Sequence[Any]:
    row = connection.execute(f"SELECT {columns} FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(f"no run {run_id!r} is known here")
    return row


def _decoded(run_id: str, data: bytes) -> list[RunEvent]:
    try:
        return _events.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise Damaged(f"the run {run_id!r} cannot be read, it is damaged: {error}") from error


def _origin_of(data: bytes) -> dict[str, Any]:
    """A damaged one is no reason to hide the run, and still less to hide the others."""
    try:
        return _origin.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return DAMAGED


def _record(row: Sequence[Any]) -> RunRecord:
    run_id, model, created, owner, chat, title, origin, ended, reason, error, events, size = row
    return RunRecord(
        id=run_id,
        model=model,
        created=created,
        owner=owner,
        chat=chat,
        title=title,
        origin=_origin_of(origin),
        ended=ended,
        reason=reason,
        error=error,
        events=events,
        size=size,
    )
