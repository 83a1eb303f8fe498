"""Processes fork while they use a run log, and are killed: nothing is lost or done twice.

`WINDLASS_CRASH_KILLS` and `WINDLASS_CRASH_SEED` are as in the drill of the gateway.
"""

import asyncio
import os
import random
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

import pytest
from tests.crash.client_family import client_on
from tests.support.thoroughness import WHOLE

KILLS = int(os.environ.get("WINDLASS_CRASH_KILLS", 10 if WHOLE else 4))
SEED = int(os.environ.get("WINDLASS_CRASH_SEED", "0")) or random.randrange(1, 10**6)
ROOT = Path(__file__).parents[2]
MAX_FAMILY = 4
VISITS_PER_CHECK = 50

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"), pytest.mark.process]


class Family:
    """The running processes, and the runs that they have reported as ended."""

    def __init__(self, first: Process, path: Path) -> None:
        self._first, self._path = first, path
        self._living: list[int] = []
        self._chance = random.Random(SEED)
        self.ended: set[str] = set()
        self.counts: Counter[str] = Counter()

    async def hear(self, ended: int) -> None:
        """Reads reports until this many runs have ended."""
        assert self._first.stdout is not None
        while ended:
            what, _, rest = (await self._first.stdout.readline()).decode().strip().partition(" ")
            match what:
                case "began":
                    self._living.append(int(rest))
                case "ended":
                    self.ended.add(rest)
                    ended -= 1
                case _:
                    raise AssertionError(f"{what} {rest}\n{await self.end()}")

    async def crash(self, kills: int) -> None:
        while self.counts["kills"] < kills:
            await self.hear(self._chance.randint(1, 4))
            await asyncio.to_thread(self._visit)
            few = len(self._living) == 1
            if few or (len(self._living) < MAX_FAMILY and self._chance.random() < 0.5):
                await self._fork()
            else:
                self._end_one()

    def _visit(self) -> None:
        """The last process that leaves the file deletes its journal: a visitor is not the last.

        It checks the whole file only at times: that takes longer the more runs the file has.
        """
        if self.counts["visits"] % VISITS_PER_CHECK == 0:
            assert whole(self._path)
        else:
            connection = sqlite3.connect(self._path)
            connection.execute("SELECT id FROM runs LIMIT 1").fetchall()
            connection.close()
        self.counts["visits"] += 1

    async def _fork(self) -> None:
        living = len(self._living)
        os.kill(self._chance.choice(self._living), signal.SIGUSR1)
        self.counts["forks"] += 1
        while len(self._living) == living:
            await self.hear(1)

    def _end_one(self) -> None:
        what, how = self._chance.choice([("kills", signal.SIGKILL), ("exits", signal.SIGTERM)])
        os.kill(self._living.pop(self._chance.randrange(len(self._living))), how)
        self.counts[what] += 1

    async def end(self) -> str:
        """Ends all processes, and returns their last reports."""
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        self._first.stdin.close()
        rest = (await self._first.stdout.read()).decode()  # until the last has ended
        self.ended.update(line[6:] for line in rest.splitlines() if line.startswith("ended "))
        await self._first.wait()
        return rest


@pytest.mark.timeout(300 + 20 * KILLS)
async def test_forked_clients_lose_nothing_when_some_of_them_are_killed(
    tmp_path: Path,
) -> None:
    print(f"WINDLASS_CRASH_SEED={SEED}")
    path, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    arguments = ("-m", "tests.crash.client_family", str(path), str(ledger))
    first = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    family = Family(first, path)
    try:
        await family.crash(KILLS)
    finally:
        await family.end()
    await asyncio.to_thread(finish, path, ledger)

    reasons = whole(path)
    assert {reasons.get(run_id) for run_id in family.ended} == {"answer"}
    assert set(reasons.values()) <= {"answer", "stopped"}  # processes that exit stop their runs
    begun = Counter(ledger.read_text().split())
    assert set(begun.values()) == {1}, "a call began twice"
    print(f"{dict(family.counts)}, {len(reasons)} runs, {len(begun)} calls")


def whole(path: Path) -> dict[str, str | None]:
    """The runs in the file and how they ended. Raises if the file is damaged."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return dict(connection.execute("SELECT id, reason FROM runs").fetchall())
    finally:
        connection.close()


def finish(path: Path, ledger: Path) -> None:
    """Ends the runs that the last processes left."""
    with client_on(str(path), str(ledger)) as client:
        for run in client.resume():
            run.result()
