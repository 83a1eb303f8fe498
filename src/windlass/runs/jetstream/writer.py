"""Writes the batches of one run, one after another."""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from windlass.errors import StorageError
from windlass.runs.jetstream.streams import Append
from windlass.runs.persisted_log import Batch

__all__ = ["RunWriter", "Write"]

Write: TypeAlias = Callable[[Batch, Append], Awaitable[int]]
"""Writes a batch; the number of its message."""


class RunWriter:
    """For as long as this process has the run: another one has a writer of its own."""

    def __init__(self, run_id: str, write: Write, after: int = 0, size: int = 0) -> None:
        """`after` is the message that the next one comes behind, `size` that of all so far."""
        self._run_id, self._write = run_id, write
        self._after, self._size = after, size
        self._name = secrets.token_hex(8)
        self._batches: deque[Batch] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go())

    async def _go(self) -> None:
        while self._batches:
            batch = self._batches.popleft()
            self._size += len(batch.data)
            try:
                self._after = await self._write(batch, self._append(batch))
            except Exception as error:  # noqa: BLE001 - the run is told, and does not wait for ever
                self._batches.clear()  # what comes behind a gap is not written
                known = isinstance(error, StorageError)
                batch.told(batch, error if known else StorageError(f"the log failed: {error!r}"))
            else:
                batch.told(batch, None)

    def _append(self, batch: Batch) -> Append:
        # With the writer's own name: what another has written in this place is no try of ours.
        name = f"{self._run_id}:{batch.events[0].seq}:{self._name}"
        return Append(self._run_id, batch.data, self._after, self._size, name)
