"""Reads a long log in a separate process, and prints the figures as JSON to stdout."""

import asyncio
import gc
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import msgspec

from windlass.events import RunEnded, RunEvent, RunStarted, TextDelta
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.records import RunRecord
from windlass.runs.sqlite import SQLiteLog

RUN = "run_long"
BATCH = 10
"""Events that are written together: 50 ms of a model that writes 200 tokens a second."""
LATE = 20


async def write_log(path: Path, count: int) -> list[RunEvent]:
    """Writes a file with one run of this many events."""
    log = SQLiteLog(path)
    run = log.begin(RunRecord(id=RUN, model="bench", created=time.time()))
    run.append(RunStarted(RUN, "bench", ()))
    for number in range(2, count):
        run.append(TextDelta(f" token {number}"))
        if number % BATCH == 0 and run.settled is not None:
            await run.settled()
    run.append(RunEnded("answer"))
    await log.aclose()
    return list(run.recorded())


class Reading:
    """Reads one file by several methods."""

    def __init__(self, path: Path, events: list[RunEvent]) -> None:
        self.path, self.events = path, events
        self.memory = MemoryLog(events)

    def methods(self) -> dict[str, Callable[[], Awaitable[int]]]:
        """The methods by name. Each returns the number of events that it has read."""
        return {
            "floor: fetch the rows and decode their JSON": self.floor,
            "read": self.read,
            "follow, event by event": self.follow,
            "follow, from the memory log": self.follow_memory,
            f"open the file and follow the last {LATE}": self.late,
            "the status of the run": self.status,
        }

    async def floor(self) -> int:
        decoder = msgspec.json.Decoder(list[RunEvent])
        connection = sqlite3.connect(self.path)
        rows = connection.execute("SELECT data FROM batches ORDER BY run_id, first")
        events = [event for (data,) in rows for event in decoder.decode(data)]
        connection.close()
        return len(events)

    async def read(self) -> int:
        log = SQLiteLog(self.path)
        events = await log.read(RUN)
        await log.aclose()
        return len(events)

    async def follow(self) -> int:
        log = SQLiteLog(self.path)
        count = await _counted(log.follow(RUN))
        await log.aclose()
        return count

    async def follow_memory(self) -> int:
        return await _counted(self.memory.follow())

    async def late(self) -> int:
        log = SQLiteLog(self.path)
        count = await _counted(log.follow(RUN, len(self.events) - LATE))
        await log.aclose()
        return count + len(self.events) - LATE

    async def status(self) -> int:
        log = SQLiteLog(self.path)
        record = await log.status(RUN)
        await log.aclose()
        return record.events


async def _counted(events: Follower) -> int:
    return sum([1 async for _ in events])


async def cost(method: Callable[[], Awaitable[int]], expected: int) -> tuple[float, float]:
    """Returns the CPU seconds and the wall seconds of a method."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    count = await method()
    seconds = time.process_time() - cpu, time.perf_counter() - wall
    if count != expected:
        raise SystemExit(f"{count} events instead of {expected}")
    return seconds


async def main(count: int, sample_count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "runs.db"
        reading = Reading(path, await write_log(path, count))
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in reading.methods()}
        for _ in range(sample_count):
            for name, method in reading.methods().items():
                samples[name].append(await cost(method, count))
    print(
        json.dumps(
            {name: [*map(median, zip(*costs, strict=True))] for name, costs in samples.items()}
        )
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
