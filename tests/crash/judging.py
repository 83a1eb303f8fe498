"""Holds a whole drill against the log: every run, every ledger, every reader."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
from tests.crash.drill import Drill
from tests.crash.verdict import Circumstances, Ledgers, judge

from windlass.events import RunEvent, event_to_json
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord


async def judged(
    drill: Drill, log: RunLog, folder: Path, remote: Collection[str] = ()
) -> Counter[str]:
    """The figures of all runs, each of which is as it should be; `folder` has the ledgers.

    `remote` are the tools that workers have.
    """
    figures = Counter[str]()
    ledgers = Ledgers(folder)
    around = Circumstances(
        drill.decisions, drill.stops, remote, drill.stored_stops, bool(drill.faults)
    )
    records = await log.list()
    assert drill.readers.keys() <= {record.id for record in records}
    async with asyncio.TaskGroup() as looking:
        for record in records:
            events = await log.read(record.id)
            looking.create_task(_looked_at(drill, record, events))
            background = record.origin.get("background", False)
            figures += judge(events, ledgers, around, background=background)
            figures["readers"] += len(drill.readers.get(record.id, ()))
            for reader in drill.readers.get(record.id, ()):
                figures["readers' connections"] += reader.connections
    assert {key.partition(":")[0] for key in ledgers.keys} <= {record.id for record in records}
    return figures


async def _looked_at(drill: Drill, record: RunRecord, events: Sequence[RunEvent]) -> None:
    """Every reader has seen what is written, and so does whoever looks now."""
    written = [(event.seq, event_to_json(event)) for event in events]
    for reader in drill.readers.get(record.id, ()):
        both = zip_longest(reader.seen, written)
        strange = [(seen, kept) for seen, kept in both if seen != kept]
        assert not strange, f"a reader of {record.id} has seen, and there is: {strange[0]}"
    assert await drill.whole(record.id) == written
    shown = await drill.shown(record.id)
    assert (shown["stop_reason"], shown["events"]) == (record.reason, len(events))


def report(drill: Drill, figures: Counter[str]) -> str:
    told = {
        **figures,
        "stops that waited in the log": len(drill.stored_stops),
        "storage errors": drill.faults,
        "ends in order": drill.ends,
        "kills": drill.kills,
    }
    return msgspec.json.format(msgspec.json.encode(told)).decode()
