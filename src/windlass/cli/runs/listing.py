"""`windlass runs list`: the runs of a file, as a table and in JSON. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import msgspec
from msgspec import Struct

from windlass.cli.runs.file import short_id
from windlass.cli.runs.words import clock_time, state_of
from windlass.cli.tables import table
from windlass.cli.visible import one_line
from windlass.events import RunEnded
from windlass.runs.records import RunRecord

__all__ = ["Listed", "list_json", "list_table"]

HEADS = ("ID", "BEGUN", "STATE", "ROUNDS", "MODEL", "TITLE")


class Listed(Struct):
    """A run: its record, whether its process is gone, and its end if there is one."""

    record: RunRecord
    cut_off: bool = False
    end: RunEnded | None = None

    @property
    def state(self) -> str:
        return state_of(self.record, cut_off=self.cut_off)


def list_table(runs: Sequence[Listed], width: int, zone: tzinfo | None = None) -> str:
    rows = [
        (
            short_id(run.record.id),
            clock_time(run.record.created, zone),
            run.state,
            str(run.end.rounds) if run.end else "",
            one_line(run.record.model),
            one_line(run.record.title),
        )
        for run in runs
    ]
    return table(HEADS, rows, width)


def list_json(runs: Sequence[Listed]) -> list[dict[str, Any]]:
    """Every run with every field, whatever is known of it."""
    return [
        {
            **msgspec.structs.asdict(run.record),
            "state": run.state,
            "rounds": run.end.rounds if run.end else None,
            "usage": msgspec.structs.asdict(run.end.usage) if run.end else None,
        }
        for run in runs
    ]
