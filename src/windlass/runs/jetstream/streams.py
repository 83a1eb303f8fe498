"""What is in JetStream: one stream of events, and four buckets. All that is done with them.

Every append names the message that it comes after: of two processes that both believe to have a
run, only one can go on writing.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import nats.js.api as api
from nats.errors import Error as NatsError
from nats.js.errors import (
    APIError,
    BucketNotFoundError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
)
from nats.js.kv import KeyValue

from windlass.errors import StorageError
from windlass.messaging.connection import Connection, JetStreamContext, connect

__all__ = ["Streams", "TakenOver", "subject_of"]

STREAM = "WINDLASS_LOG"
RECORDS = "WINDLASS_RUNS"
OPEN = "WINDLASS_OPEN"
LEASES = "WINDLASS_LEASES"
ORDERS = "WINDLASS_ORDERS"
PREFIX = "windlass.v1.log"
SIZE = "Windlass-Size"
WRONG_SEQUENCE = 10071
PATIENCE = 20.0
"""Seconds for which a write is tried again: a cluster that has lost its leader chooses another."""
AGAIN_SECONDS = 0.1


class TakenOver(StorageError):
    """Another process has written to the run: it has it now."""


def subject_of(run_id: str) -> str:
    return f"{PREFIX}.{run_id}"


class Streams:
    """Made at the first use, by whoever comes first. Every method raises `StorageError`."""

    def __init__(
        self, servers: str | list[str], replicas: int, lease: float, options: dict[str, Any]
    ) -> None:
        self._servers, self._options = servers, options
        self._replicas, self._lease = replicas, lease
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._js: JetStreamContext | None = None
        self.records: KeyValue
        self.open_runs: KeyValue
        self.leases: KeyValue
        self.orders: KeyValue

    async def connection(self) -> Connection:
        await self._ready()
        assert self._connection is not None
        return self._connection

    async def aclose(self) -> None:
        connection, self._connection, self._js = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def append(self, run_id: str, data: bytes, first: int, after: int, size: int) -> int:
        """Writes a batch behind message `after`; its number. Raises `TakenOver`.

        `size` is that of the whole log with it. A try whose answer was lost is found by its id,
        and not written twice.
        """
        js = await self._ready()
        headers = {
            api.Header.MSG_ID: f"{run_id}:{first}:{after}",
            "Nats-Expected-Last-Subject-Sequence": str(after),
            SIZE: str(size),
        }
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE
        while True:
            try:
                return (await js.publish(subject_of(run_id), data, headers=headers)).seq
            except APIError as error:
                if error.err_code == WRONG_SEQUENCE:
                    raise TakenOver(f"another process has taken the run {run_id} over") from error
                failure: Exception = error
            except (NatsError, TimeoutError) as error:
                failure = error
            if loop.time() > give_up:
                raise StorageError(f"JetStream does not take the run's events: {failure}")
            await asyncio.sleep(AGAIN_SECONDS)

    async def batches(
        self, run_id: str, begin: int = 1, *, direct: bool = True
    ) -> AsyncIterator[tuple[int, bytes]]:
        """The run's batches from message number `begin` on, each with its number.

        A `direct` read may come from a replica that is a moment behind.
        """
        js = await self._ready()
        while True:
            try:
                found = await js.get_msg(
                    STREAM, seq=begin, subject=subject_of(run_id), direct=direct, next=True
                )
            except NotFoundError:
                return
            except (NatsError, APIError, TimeoutError) as error:
                raise StorageError(f"JetStream cannot be read: {error}") from error
            assert found.seq is not None
            yield found.seq, found.data or b""
            begin = found.seq + 1

    async def last(self, run_id: str) -> tuple[bytes, int] | None:
        """The run's newest batch, and the size of all of them."""
        js = await self._ready()
        try:
            found = await js.get_last_msg(STREAM, subject_of(run_id))
            headers = cast("dict[str, str]", found.headers or {})
            return found.data or b"", int(headers.get(SIZE, "0"))
        except NotFoundError:
            return None
        except (NatsError, APIError, TimeoutError) as error:
            raise StorageError(f"JetStream cannot be read: {error}") from error

    async def purge(self, run_id: str) -> None:
        js = await self._ready()
        try:
            await js.purge_stream(STREAM, subject=subject_of(run_id))
            for bucket in (self.records, self.open_runs):
                await bucket.purge(run_id)
        except (NatsError, APIError, TimeoutError) as error:
            raise StorageError(f"the run cannot be deleted: {error}") from error

    async def put(self, bucket: KeyValue, key: str, value: bytes, last: int | None = None) -> bool:
        """Sets a key, if its revision is still the `last` one; False if it is not."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE
        while True:
            try:
                await (bucket.put(key, value) if last is None else bucket.update(key, value, last))
            except KeyWrongLastSequenceError:
                return False
            except (NatsError, APIError, TimeoutError) as error:
                if loop.time() > give_up:
                    raise StorageError(f"JetStream cannot be written: {error}") from error
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return True

    async def drop(self, bucket: KeyValue, key: str) -> None:
        try:
            await bucket.purge(key)
        except (NatsError, APIError, TimeoutError) as error:
            raise StorageError(f"JetStream cannot be written: {error}") from error

    async def get(self, bucket: KeyValue, key: str) -> tuple[bytes, int] | None:
        """The key's value and its revision."""
        try:
            entry = await bucket.get(key)
        except KeyNotFoundError:
            return None
        except (NatsError, APIError, TimeoutError) as error:
            raise StorageError(f"JetStream cannot be read: {error}") from error
        return entry.value or b"", entry.revision or 0

    async def all(self, bucket: KeyValue) -> dict[str, tuple[bytes, int]]:
        """Everything in a bucket, with its revisions."""
        found: dict[str, tuple[bytes, int]] = {}
        try:
            watcher = await bucket.watchall(ignore_deletes=True)  # pyright: ignore[reportUnknownMemberType]
            async for entry in watcher:
                if entry is None:
                    break
                found[entry.key] = (entry.value or b"", entry.revision or 0)
            await watcher.stop()
        except (NatsError, APIError, TimeoutError) as error:
            raise StorageError(f"JetStream cannot be read: {error}") from error
        return found

    async def watch(self, bucket: KeyValue) -> AsyncIterator[tuple[str, bytes]]:
        """Every key of a bucket with its value, and each that comes; empty if it is gone."""
        watcher = await bucket.watchall()  # pyright: ignore[reportUnknownMemberType]
        async for entry in watcher:
            if entry is not None:
                yield entry.key, b"" if entry.operation else entry.value or b""

    async def _ready(self) -> JetStreamContext:
        if self._js is not None:
            return self._js
        async with self._opening:
            if self._js is None:
                self._connection = await connect(self._servers, "windlass log", self._options)
                js = self._connection.jetstream()
                try:
                    await self._make(js)
                except (NatsError, APIError, TimeoutError) as error:
                    await self._connection.close()
                    raise StorageError(f"JetStream cannot be set up: {error}") from error
                self._js = js
        return self._js

    async def _make(self, js: JetStreamContext) -> None:
        stream = api.StreamConfig(
            name=STREAM,
            subjects=[f"{PREFIX}.*"],
            storage=api.StorageType.FILE,
            num_replicas=self._replicas,
            allow_direct=True,
            duplicate_window=120.0,
        )
        try:
            await js.stream_info(STREAM)
        except NotFoundError:
            await js.add_stream(stream)  # pyright: ignore[reportUnknownMemberType]
        self.records = await self._bucket(js, RECORDS)
        self.open_runs = await self._bucket(js, OPEN)
        self.leases = await self._bucket(js, LEASES, ttl=self._lease)
        self.orders = await self._bucket(js, ORDERS)

    async def _bucket(self, js: JetStreamContext, name: str, **options: Any) -> KeyValue:
        try:
            return await js.key_value(name)
        except BucketNotFoundError:
            return await js.create_key_value(  # pyright: ignore[reportUnknownMemberType]
                bucket=name, replicas=self._replicas, **options
            )
