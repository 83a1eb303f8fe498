"""Orders to the owners of runs: stop a run, or decide about a call. Stored until the run ends."""

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections.abc import Callable, Sequence

import msgspec

from windlass.errors import StorageError
from windlass.jsontext import encode_json
from windlass.messaging.connection import Msg
from windlass.runs.jetstream.streams import Streams
from windlass.runs.records import Order

log = logging.getLogger("windlass.runs")

POLL_SECONDS = 1.0
"""How often to read stored orders. Some have no notification, such as those of resumed runs."""

POLLS_PER_CLEANUP = 60

OrderHandler = Callable[[str, Order], bool]
"""Carries out an order for a run. Returns False if this process does not own the run."""
_order = msgspec.json.Decoder(Order)


class Orders:
    """The orders of all runs.

    A process that resumes a run handles its orders again, since their effects may be lost.
    """

    def __init__(self, streams: Streams, handle: OrderHandler) -> None:
        self._streams, self._handle = streams, handle
        self._handled: dict[str, set[str]] = {}
        """The keys of handled orders, by run."""
        self._task: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Starts handling orders."""
        connection = await self._streams.connection()
        await connection.subscribe(self._streams.orders.subject, self._receive)
        self._task = asyncio.create_task(self._poll())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def give(self, run_id: str, order: Order) -> bool:
        """Stores an order. Returns False if another decision about the call exists."""
        orders, value = self._streams.orders, encode_json(order)
        data = await self._streams.packed(run_id, value)
        if order.kind == "stop":
            await orders.put(f"{run_id}.{secrets.token_hex(8)}", data)
            return True
        key = f"{run_id}.{hashlib.sha256(order.call_id.encode()).hexdigest()[:32]}"
        if await orders.replace(key, data, 0):
            return True
        found = await orders.get(key)
        return found is not None and await self._streams.unpacked(run_id, found.value) == value

    async def waiting(self, run_id: str) -> Sequence[Order]:
        """Returns the stored orders of a run that is being resumed here, oldest first."""
        found: list[Order] = []
        for key, entry in (await self._streams.orders.all()).items():
            if _run_in(key) == run_id and (order := await self._read(run_id, entry.value)):
                self._handled.setdefault(run_id, set()).add(key)
                found.append(order)
        return found

    async def forget(self, run_id: str) -> None:
        """Deletes the orders of an ended run."""
        if self._handled.pop(run_id, None):
            await self._streams.orders.drop(f"{run_id}.>")

    def reset(self, run_id: str) -> None:
        """Forgets which orders were handled. Called when the run is reopened or detached."""
        self._handled.pop(run_id, None)

    async def _receive(self, message: Msg) -> None:
        """Handles an order when it is written."""
        if message.data:
            await self._take(self._streams.orders.key_in(message.subject), message.data)

    async def _poll(self) -> None:
        polls = 0
        while True:
            await asyncio.sleep(POLL_SECONDS)
            polls += 1
            with contextlib.suppress(StorageError):
                if await self._poll_once() and polls % POLLS_PER_CLEANUP == 0:
                    await self.clean_up()

    async def _poll_once(self) -> bool:
        """Handles all stored orders. Returns whether there were any."""
        waiting = await self._streams.orders.all()
        for key, entry in waiting.items():
            await self._take(key, entry.value)
        return bool(waiting)

    async def clean_up(self) -> None:
        """Deletes orders that came too late: their runs have ended."""
        run_ids = {_run_in(key) for key in await self._streams.orders.all()}
        for run_id in run_ids.difference(await self._streams.open_runs.all()):
            await self._streams.orders.drop(f"{run_id}.>")

    async def _take(self, key: str, data: bytes) -> None:
        run_id = _run_in(key)
        if key in self._handled.get(run_id, ()):
            return
        order = await self._read(run_id, data)
        if (
            order is not None
            and key not in self._handled.get(run_id, ())
            and self._handle(run_id, order)
        ):
            self._handled.setdefault(run_id, set()).add(key)

    async def _read(self, run_id: str, data: bytes) -> Order | None:
        try:
            return _order.decode(await self._streams.unpacked(run_id, data))
        except msgspec.DecodeError as error:
            log.warning("Cannot read order: %s", error, extra={"run_id": run_id})
            return None


def _run_in(key: str) -> str:
    return key.partition(".")[0]
