"""Writes the batches of one run, one after another."""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from windlass.errors import StorageError
from windlass.runs.jetstream.streams import Append
from windlass.runs.persisted_log import Batch

Write: TypeAlias = Callable[[Batch, Append], Awaitable[int]]
"""Writes a batch and returns the number of its message."""


class RunWriter:
    """Writes the batches of one run, one after another, while this process owns the run."""

    def __init__(self, run_id: str, write: Write, after: int = 0, size: int = 0) -> None:
        """`after` is the number of the last message, `size` the size of the log so far."""
        self._run_id, self._write = run_id, write
        self._after, self._size = after, size
        self._name = secrets.token_hex(8)
        self._batches: deque[Batch] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._size += len(batch.data)
            try:
                self._after = await self._write(batch, self._append(batch))
            except Exception as error:  # noqa: BLE001 - the run must learn of every failure
                self._batches.clear()  # nothing is written after a gap
                known = isinstance(error, StorageError)
                batch.on_done(
                    batch, error if known else StorageError(f"cannot write run log: {error!r}")
                )
            else:
                batch.on_done(batch, None)

    def _append(self, batch: Batch) -> Append:
        # The writer's name tells its own earlier attempts from messages of other writers.
        name = f"{self._run_id}:{batch.events[0].seq}:{self._name}"
        return Append(self._run_id, batch.data, self._after, self._size, name)
