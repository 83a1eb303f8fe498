"""The queries of the SQLite run log."""

import math
import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.errors import RunNotFound
from windlass.events import RunEvent
from windlass.runs.event_log import PAGE_BYTES, PAGE_EVENTS
from windlass.runs.persisted_log import Damaged
from windlass.runs.records import DAMAGED, Retention, RunFilter, RunRecord
from windlass.runs.sqlite.database import folded_title

Cutoff = tuple[int, float]
"""Which runs expire: those up to an end number, and those that ended before a time."""

_RECORD = """
    runs.id, model, created, owner, chat, title, origin, ended, reason, error, events, size,
    runs.number
"""
_STATE = "ended IS NOT NULL, events"
"""The columns that a follower needs. It queries often, so there are no others."""
_BATCHES = """
    SELECT data FROM batches WHERE run_id = :run AND last > :after AND first >= (
        SELECT ifnull(max(first), 0) FROM batches WHERE run_id = :run AND first <= :after + 1
    ) ORDER BY first
"""
"""A follower queries often, so the number is found with the index."""
_events = msgspec.json.Decoder(list[RunEvent])
_origin = msgspec.json.Decoder(dict[str, Any])


def events_after(
    connection: sqlite3.Connection, run_id: str, after: int, limit: int | None
) -> tuple[list[RunEvent], bool]:
    """Returns the events after a number, and whether the run has ended.

    Raises `RunNotFound`, and `Damaged` for unreadable events.
    """
    return _events_after(connection, run_id, after, limit, None)


def page_after(
    connection: sqlite3.Connection, run_id: str, after: int
) -> tuple[list[RunEvent], bool]:
    """Returns one page of events for a follower, in whole batches."""
    return _events_after(connection, run_id, after, PAGE_EVENTS, PAGE_BYTES)


def _events_after(
    connection: sqlite3.Connection,
    run_id: str,
    after: int,
    max_events: int | None,
    max_bytes: int | None,
) -> tuple[list[RunEvent], bool]:
    # Read before the events: if the run has ended by now, the events are complete.
    ended, last = _row_of(connection, run_id, _STATE)
    events: list[RunEvent] = []
    size = 0
    rows = connection.execute(_BATCHES, {"run": run_id, "after": after})
    for (data,) in rows:
        some = _decoded(run_id, data)
        if not events:  # only the first batch may start before that number
            some = [event for event in some if event.seq > after]
        events += some
        size += len(data)
        if max_events is not None and len(events) >= max_events:
            break
        if max_bytes is not None and size >= max_bytes and events:
            break
    rows.close()
    if ended and not events and after < last:
        _row_of(connection, run_id, _STATE)  # the run may have been deleted meanwhile
        raise Damaged(f"run {run_id!r} is damaged: events are missing")
    return events, bool(ended)


def record_of(connection: sqlite3.Connection, run_id: str) -> RunRecord:
    """Raises `RunNotFound`."""
    return _record(_row_of(connection, run_id, _RECORD))


def records(
    connection: sqlite3.Connection,
    *,
    wanted: RunFilter,
    before: RunRecord | None,
    limit: int | None,
) -> Sequence[RunRecord]:
    """Returns the matching runs, newest first."""
    if wanted.reasons is not None and (wanted.open or not wanted.reasons):
        return []
    # One search for each reason, which SQLite merges in the order of their numbers.
    choices = [_choice(wanted, before, each) for each in wanted.reasons or [None]]
    chosen = " UNION ALL ".join(choice for choice, _ in choices)
    values = [value for _, some in choices for value in some]
    # The ids first: most filters need only an index, and reading a run is slower.
    query = (
        f"SELECT {_RECORD} FROM ({chosen} ORDER BY number DESC LIMIT ?) AS chosen"
        " CROSS JOIN runs ON runs.id = chosen.id ORDER BY chosen.number DESC"
    )
    values.append(-1 if limit is None else limit)
    return [_record(row) for row in connection.execute(query, values).fetchall()]


def _choice(
    wanted: RunFilter, before: RunRecord | None, reason: str | None
) -> tuple[str, list[Any]]:
    """Returns a query for the ids and numbers of the matching runs with this reason."""
    title = folded_title(wanted.title) if wanted.title else None
    optional = (
        ("owner = ?", wanted.owner),
        ("chat = ?", wanted.chat),
        ("reason = ?", reason),
        ("model = ?", wanted.model),
        ("number < ?", None if before is None else before.number),
        ("instr(folded, ?) > 0", title),
    )
    given = [(condition, value) for condition, value in optional if value is not None]
    conditions = [condition for condition, _ in given] or ["TRUE"]
    if wanted.chat or wanted.in_chats:
        conditions.append("chat <> ''")  # also needed for the partial indexes
    if wanted.open is not None and reason is None:
        conditions.append("ended IS NULL" if wanted.open else "ended IS NOT NULL")
    query = (
        f"SELECT id, number FROM runs INDEXED BY {_index(wanted)} WHERE {' AND '.join(conditions)}"
    )
    return query, [value for _, value in given]


def _index(wanted: RunFilter) -> str:
    """Returns the most selective index: SQLite does not know that few runs are open."""
    if wanted.open:
        return "runs_open"
    if wanted.chat:
        return "runs_by_chat"
    if wanted.owner is None:
        return "runs_by_number"
    if wanted.in_chats:
        return "runs_in_chats"
    if wanted.reasons is not None:
        return "runs_by_reason"
    return "runs_by_owner" if wanted.model is None else "runs_by_model"


def open_runs(connection: sqlite3.Connection) -> list[tuple[RunRecord, int]]:
    """Returns the open runs, oldest first, each with the number of its writer."""
    query = (
        f"SELECT {_RECORD}, keeper FROM runs INDEXED BY runs_open"
        " WHERE ended IS NULL ORDER BY number"
    )
    return [(_record(row[:-1]), row[-1]) for row in connection.execute(query).fetchall()]


_ENDED = "FROM runs INDEXED BY runs_by_end WHERE end_number IS NOT NULL"
_TOO_MANY = f"SELECT end_number {_ENDED} ORDER BY end_number DESC LIMIT 1 OFFSET ?"
_TOO_LARGE = f"""
    SELECT end_number FROM (
        SELECT end_number, sum(size) OVER (
            ORDER BY end_number DESC ROWS UNBOUNDED PRECEDING
        ) AS total {_ENDED}
    ) WHERE total > ? ORDER BY end_number DESC LIMIT 1
"""
_TOO_OLD = "SELECT id FROM runs INDEXED BY runs_by_age WHERE ended < ? ORDER BY ended LIMIT ?"
_BEFORE = f"SELECT id {_ENDED} AND end_number <= ? ORDER BY end_number LIMIT ?"


def expiry_cutoff(
    connection: sqlite3.Connection, retention: Retention, now: float
) -> Cutoff | None:
    """Returns which runs expire; None if all runs stay.

    Counts runs and sizes in the order of their ends, which does not depend on the clock.
    """
    limits = ((_TOO_MANY, retention.max_runs), (_TOO_LARGE, retention.max_bytes))
    found = [
        connection.execute(query, (limit,)).fetchone()
        for query, limit in limits
        if limit is not None
    ]
    number = max((row[0] for row in found if row is not None), default=0)
    before = -math.inf if retention.max_age is None else now - retention.max_age
    cutoff = (number, before)
    return cutoff if _expired(connection, cutoff, 1) else None


def runs_to_expire(
    connection: sqlite3.Connection, cutoff: Cutoff | None, max_runs: int
) -> Sequence[str]:
    """Returns some expired runs, oldest first; none while batches of deleted runs are left."""
    if cutoff is None or has_deleted(connection):
        return ()
    return _expired(connection, cutoff, max_runs)


def _expired(connection: sqlite3.Connection, cutoff: Cutoff, max_runs: int) -> Sequence[str]:
    number, before = cutoff
    rows = connection.execute(_BEFORE, (number, max_runs)).fetchall()
    rows = rows or connection.execute(_TOO_OLD, (before, max_runs)).fetchall()
    return [run_id for (run_id,) in rows]


def has_deleted(connection: sqlite3.Connection) -> bool:
    """Whether a deletion was interrupted, so that batches of deleted runs are left."""
    return connection.execute("SELECT 1 FROM deleted LIMIT 1").fetchone() is not None


def ended_run(connection: sqlite3.Connection, run_id: str) -> Sequence[str]:
    """Returns the run's id if the run exists and has ended."""
    query = "SELECT id FROM runs WHERE id = ? AND ended IS NOT NULL"
    return [found for (found,) in connection.execute(query, (run_id,))]


def writer_of(connection: sqlite3.Connection, run_id: str) -> int | None:
    """Returns the number of the run's writer; None if it has ended. Raises `RunNotFound`."""
    ended, writer = _row_of(connection, run_id, "ended IS NOT NULL, keeper")
    return None if ended else writer


def orders(connection: sqlite3.Connection) -> list[tuple[int, str, bytes, bool]]:
    """Returns all orders: number, run id, order, and whether the run has ended."""
    query = (
        "SELECT orders.id, run_id, data, ended IS NOT NULL FROM orders"
        " JOIN runs ON runs.id = run_id ORDER BY orders.id"
    )
    return connection.execute(query).fetchall()


def orders_of(connection: sqlite3.Connection, run_id: str) -> list[tuple[int, bytes]]:
    """Returns the orders of one run, oldest first: number and order."""
    query = "SELECT id, data FROM orders WHERE run_id = ? ORDER BY id"
    return connection.execute(query, (run_id,)).fetchall()


def _row_of(connection: sqlite3.Connection, run_id: str, columns: str) -> Sequence[Any]:
    row = connection.execute(f"SELECT {columns} FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise RunNotFound(f"run {run_id!r} not found")
    return row


def _decoded(run_id: str, data: bytes) -> list[RunEvent]:
    try:
        return _events.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise Damaged(f"run {run_id!r} is damaged: {error}") from error


def _origin_of(data: bytes) -> dict[str, Any]:
    """Decodes the origin. A damaged one must not hide the run or others."""
    try:
        return _origin.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return DAMAGED


def _record(row: Sequence[Any]) -> RunRecord:
    run_id, model, created, owner, chat, title, origin, *state = row
    ended, reason, error, events, size, number = state
    return RunRecord(
        id=run_id,
        model=model,
        created=created,
        number=number,
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


def counter(connection: sqlite3.Connection, name: str) -> bytes:
    """Returns the value of a counter; empty if there is none."""
    found = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
    return bytes(found[0]) if found else b""
