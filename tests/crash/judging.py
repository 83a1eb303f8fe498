"""Compares a whole drill with the log: every run, every ledger, every reader."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.crash.drill import Drill
from tests.crash.verdict import Circumstances, Ledgers, damage, judge

from windlass.events import RunEvent, event_to_json
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord


class Judgement(NamedTuple):
    """The results of the runs of a drill, and their errors."""

    figures: Counter[str]
    faults: list[str]


async def judged(
    drill: Drill,
    log: RunLog,
    folder: Path,
    remote: Collection[str] = (),
    *,
    takeovers: bool = False,
) -> Judgement:
    """Every run of the log, beside the ledgers in `folder` and what the readers have seen.

    `remote` are the tools that workers have; `takeovers` says that the runs of a paused process
    are taken over.
    """
    ledgers, faults = Ledgers(folder), list[str]()
    around = Circumstances(
        drill.decisions, drill.stops, remote, drill.stored_stops, bool(drill.faults), takeovers
    )
    records = {record.id: record for record in await log.list()}
    known = drill.readers.keys() | {key.partition(":")[0] for key in ledgers.keys}
    missing = known - records.keys()
    faults += [f"the log does not have {run_id}" for run_id in missing]
    figures = Counter[str](lost=len(missing))
    for record in records.values():
        events = await log.read(record.id)
        figures += damage(events, ledgers, around)
        background = not record.origin.get("needs_client", False)
        try:
            figures += judge(events, ledgers, around, background=background)
            await _looked_at(drill, record, events)
        except AssertionError as fault:
            faults.append(f"{record.id}: {fault}")
        figures["readers"] += len(drill.readers.get(record.id, ()))
        for reader in drill.readers.get(record.id, ()):
            figures["readers' connections"] += reader.connections
    return Judgement(figures, faults)


TRIES = 50


async def _looked_at(drill: Drill, record: RunRecord, events: Sequence[RunEvent]) -> None:
    """Every reader has received the stored events, and a new reader receives the same."""
    written = [(event.seq, event_to_json(event)) for event in events]
    for reader in drill.readers.get(record.id, ()):
        both = zip_longest(reader.seen, written)
        strange = [(seen, kept) for seen, kept in both if seen != kept]
        assert not strange, f"a reader of {record.id} has seen, and there is: {strange[0]}"
    there = (record.reason, len(events))
    looks: tuple[object, object] = (None, None)
    for _ in range(TRIES):  # a gateway of a fleet learns of the ends of others a moment later
        shown = await drill.shown(record.id)
        looks = (shown.get("stop_reason"), shown["events"])
        if looks == there:
            break
        await asyncio.sleep(0.1)
    assert looks == there, f"{record.id} is shown as {looks}, and is {there}"
    assert await drill.whole(record.id) == written, f"{record.id} is read otherwise than written"


def report(drill: Drill, figures: Counter[str]) -> str:
    events: dict[str, object] = {
        "stops": len(drill.stops),
        "stops that waited in the log": len(drill.stored_stops),
        "storage errors": drill.faults,
        "pauses": drill.pauses,
        "ends in order": drill.ends,
        "kills": drill.kills,
        "kills in all": drill.kills.total(),
    }
    return formatted(figures, events)


def formatted(figures: Counter[str], more: Mapping[str, object] | None = None) -> str:
    """The counts of a drill. The last three are those of broken promises."""
    promises = ("lost", "doubled", "unanswered")
    kept = {name: count for name, count in figures.items() if name not in promises}
    broken = {name: figures[name] for name in promises}
    return msgspec.json.format(msgspec.json.encode({**kept, **(more or {}), **broken})).decode()
