"""Runs `fork_program.py`, and compares the reports of its processes with the log."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from tests.crash.forks import HERE
from tests.crash.judging import Judgement
from tests.crash.verdict import Circumstances, Ledgers, damage, judge

from windlass.runs.sqlite import SQLiteLog


class Told(msgspec.Struct):
    """A line of `fork_program.py`."""

    what: str
    run: str = ""
    error: str = ""


async def forked(home: Path, file: Path, base_url: str, children: int, seed: int) -> list[Told]:
    """What the program and its children have reported when all of them have exited."""
    ledgers = home / "ledgers"
    ledgers.mkdir()
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *(str(HERE / "fork_program.py"), str(file), base_url, str(children), str(seed)),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), *_paths()]),
            "WINDLASS_CRASH_LEDGERS": str(ledgers),
        },
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    lines = [line async for line in program.stdout]  # up to the exit of the last child
    assert await program.wait() == 0
    return [msgspec.json.decode(line, type=Told) for line in lines]


async def judged_forks(file: Path, ledgers: Path, told: Sequence[Told]) -> Judgement:
    """Every run that any process has begun is in the log and has the right end."""
    log = SQLiteLog(file)
    records = {record.id: record for record in await log.list()}
    faults = [f"{each.run} {each.error}" for each in told if each.what == "failed"]
    missing = {each.run for each in told if each.run} - records.keys()
    faults += [f"the log does not have {run_id}" for run_id in missing]
    what = Counter(each.what for each in told)
    figures = Counter[str](lost=len(missing), **what)
    entries, around = Ledgers(ledgers), Circumstances({})
    answered = {each.run for each in told if each.what in ("answered", "resumed")}
    for record in records.values():
        events = await log.read(record.id)
        figures += damage(events, entries, around)
        try:
            figures += judge(events, entries, around, background=True)
            assert record.reason == "answer" or record.id not in answered
        except AssertionError as fault:
            faults.append(f"{record.id}: {fault}")
    await log.aclose()
    if not figures["answered"]:
        faults.append("no run has come to its answer")
    return Judgement(figures, faults)


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
