"""What is asked of runs that go in other processes: kept until it has been done."""

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

__all__ = ["Obey", "Orders"]

log = logging.getLogger("windlass.runs")

LOOK_SECONDS = 1.0
"""How often those are looked for that were not heard: of a run that was taken over, above all."""

LOOKS_TO_TIDY = 60

Obey = Callable[[str, Order], bool]
"""Does what is asked of a run; False if that does not go here."""
_order = msgspec.json.Decoder(Order)


class Orders:
    """Each is obeyed by every process that gets its run: what came of it may be lost with one."""

    def __init__(self, streams: Streams, obey: Obey) -> None:
        self._streams, self._obey = streams, obey
        self._obeyed: dict[str, set[str]] = {}
        """By run."""
        self._task: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Hears from now on what is asked."""
        connection = await self._streams.connection()
        await connection.subscribe(self._streams.orders.subject, self._heard)
        self._task = asyncio.create_task(self._look())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def give(self, run_id: str, order: Order) -> bool:
        """Stores it; False for a decision about a call that has another one already."""
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
        """Those for a run that is about to be resumed here, oldest first."""
        found: list[Order] = []
        for key, entry in (await self._streams.orders.all()).items():
            if _run_in(key) == run_id and (order := await self._read(run_id, entry.value)):
                self._obeyed.setdefault(run_id, set()).add(key)
                found.append(order)
        return found

    async def forget(self, run_id: str) -> None:
        """Its run has ended."""
        if self._obeyed.pop(run_id, None):
            await self._streams.orders.drop(f"{run_id}.>")

    def begin_again(self, run_id: str) -> None:
        """The run is not here any more, or anew."""
        self._obeyed.pop(run_id, None)

    async def _heard(self, message: Msg) -> None:
        """It passes by while it is written."""
        if message.data:
            await self._take(self._streams.orders.key_in(message.subject), message.data)

    async def _look(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            looks += 1
            with contextlib.suppress(StorageError):
                if await self._look_once() and looks % LOOKS_TO_TIDY == 0:
                    await self.tidy()

    async def _look_once(self) -> bool:
        """Takes all orders that wait; whether there were any."""
        waiting = await self._streams.orders.all()
        for key, entry in waiting.items():
            await self._take(key, entry.value)
        return bool(waiting)

    async def tidy(self) -> None:
        """Takes those away that came too late: their runs have ended."""
        asked = {_run_in(key) for key in await self._streams.orders.all()}
        for run_id in asked.difference(await self._streams.open_runs.all()):
            await self._streams.orders.drop(f"{run_id}.>")

    async def _take(self, key: str, data: bytes) -> None:
        run_id = _run_in(key)
        if key in self._obeyed.get(run_id, ()):
            return
        order = await self._read(run_id, data)
        if (
            order is not None
            and key not in self._obeyed.get(run_id, ())
            and self._obey(run_id, order)
        ):
            self._obeyed.setdefault(run_id, set()).add(key)

    async def _read(self, run_id: str, data: bytes) -> Order | None:
        try:
            return _order.decode(await self._streams.unpacked(run_id, data))
        except msgspec.DecodeError as error:
            log.warning("Cannot read an order: %s", error, extra={"run_id": run_id})
            return None


def _run_in(key: str) -> str:
    return key.partition(".")[0]
