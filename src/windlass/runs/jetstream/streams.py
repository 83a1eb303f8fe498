"""What is in JetStream: a stream of events, one of pieces, and four buckets, and all their uses.

What is larger than a message may be is written in pieces, and a pointer to them in its place.

Every append names the message that it comes after: of two processes that both believe to have a
run, only one can go on writing.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar, cast

import nats.js.api as api
from nats.errors import ConnectionClosedError, MaxPayloadError
from nats.js.errors import APIError, NotFoundError

from windlass.errors import ConfigError, StorageError
from windlass.messaging.connection import Connection, Connector, JetStreamContext, NatsError
from windlass.runs.jetstream.buckets import WRONG_SEQUENCE, Bucket
from windlass.runs.jetstream.reading import PAGE_BYTES, Kept, page
from windlass.runs.persisted_log import Damaged, TakenOver

__all__ = ["LEASES", "Append", "Last", "Streams", "subject_of"]

STREAM = "WINDLASS_LOG"
PIECES = "WINDLASS_PIECES"
RECORDS = "WINDLASS_RUNS"
OPEN = "WINDLASS_OPEN"
LEASES = "WINDLASS_LEASES"
ORDERS = "WINDLASS_ORDERS"
PREFIX = "windlass.v1.log"
PIECES_PREFIX = "windlass.v1.pieces"
POINTER = b"\0"
"""What a pointer begins with, and JSON never does."""
PIECE_BYTES = 2**20
HEADER_BYTES = 4096
"""Room for the headers of a message, which count towards the server's `max_payload`."""
SIZE, ID = "Windlass-Size", "Windlass-Batch"
REQUEST_SECONDS = 2.0
"""How long one try waits for its answer: it may have gone to a server that is no more."""
PATIENCE = 30.0
"""Seconds for which it is tried again: a cluster that has lost its leader chooses another."""
AGAIN_SECONDS = 0.1
OLDEST = (2, 11)
"""The first version of NATS that gives many messages at once."""
PIECES_SECONDS = 5.0
"""How long pieces are waited for: the server that is asked may be behind the one that has them."""
HOPELESS = (ConnectionClosedError, MaxPayloadError)

T = TypeVar("T")


class Append(NamedTuple):
    """A batch that is to be written behind message number `after`."""

    run_id: str
    data: bytes
    after: int
    size: int
    """Of the whole log with it."""
    id: str
    """By it, a try whose answer was lost is found again."""


class Last(NamedTuple):
    """The newest batch of a run, and the size of all of them."""

    number: int
    data: bytes
    size: int
    id: str = ""


def subject_of(run_id: str) -> str:
    return f"{PREFIX}.{run_id}"


class Streams:
    """Made at the first use, by whoever comes first.

    Every method raises `StorageError`, also as `NatsUnreachable`, and `ConfigError` where the
    server will not do.
    """

    def __init__(
        self, servers: str | list[str], replicas: int, lease: float, options: dict[str, Any]
    ) -> None:
        self._connector = Connector(servers, "windlass log", options)
        self._replicas = replicas
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._js: JetStreamContext | None = None
        self._process: int | None = None
        """Which has the connection. Its forks share the socket, and must not use it."""
        self.records = Bucket(self, RECORDS, replicas)
        self.open_runs = Bucket(self, OPEN, replicas)
        self.leases = Bucket(self, LEASES, replicas, lease)
        self.orders = Bucket(self, ORDERS, replicas)

    @property
    def inherited(self) -> bool:
        """Whether the process that this one was forked from has opened the connection."""
        used = self._js is not None or self._opening.locked()
        return used and self._process != os.getpid()

    async def connection(self) -> Connection:
        await self._ready()
        assert self._connection is not None
        return self._connection

    async def aclose(self) -> None:
        connection, self._connection, self._js = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def append(self, batch: Append) -> int:
        """Writes it; the number of its message. Raises `TakenOver`."""
        headers = {
            ID: batch.id,
            api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(batch.after),
            SIZE: str(batch.size),
        }

        data = await self.packed(batch.run_id, batch.data)

        async def attempt(js: JetStreamContext) -> int:
            try:
                return (await js.publish(subject_of(batch.run_id), data, headers=headers)).seq
            except APIError as error:
                last = await self.last(batch.run_id) or Last(0, b"", 0)
                if error.err_code not in WRONG_SEQUENCE or last.number == batch.after:
                    raise  # or what comes behind it is not settled yet
                # The last one may be this very batch, of a try whose answer was lost.
                if last.id != batch.id:
                    text = f"another process has taken the run {batch.run_id} over"
                    raise TakenOver(text) from error
                return last.number

        return await self.patiently(attempt)

    async def batches(
        self, run_id: str, begin: int = 1, *, whole: bool = False, max_bytes: int = PAGE_BYTES
    ) -> AsyncGenerator[tuple[int, bytes]]:
        """The run's batches from message number `begin` on, each with its number.

        `max_bytes` is how much is asked for at a time. The batches may come from a server that is
        a moment behind; the `whole` log has all that was written before.
        """
        on: int | None = begin
        while on is not None:
            found, on = await self._page(STREAM, subject_of(run_id), on, max_bytes)
            for each in found:
                yield each.number, await self.unpacked(run_id, each.data)
                begin = each.number + 1
            if whole and on is None and (last := await self.last(run_id)) and last.number >= begin:
                on = begin
                await asyncio.sleep(0 if found else AGAIN_SECONDS)

    async def last(self, run_id: str) -> Last | None:
        """None if nothing has been written of the run."""

        async def attempt(js: JetStreamContext) -> Last | None:
            try:
                found = await js.get_last_msg(STREAM, subject_of(run_id))
            except NotFoundError:
                return None
            headers = cast("dict[str, str]", found.headers or {})
            size, name = int(headers.get(SIZE, "0")), headers.get(ID, "")
            return Last(found.seq or 0, found.data or b"", size, name)

        last = await self.patiently(attempt)
        return last and last._replace(data=await self.unpacked(run_id, last.data))

    async def packed(self, run_id: str, data: bytes) -> bytes:
        """The data, or if it is too large for a message, a pointer to its pieces: now written."""
        most = (await self.connection()).max_payload - HEADER_BYTES
        if len(data) <= most:
            return data
        name, size = secrets.token_hex(8), min(most, PIECE_BYTES)
        starts = range(0, len(data), size)
        for start in starts:
            await self._put_piece(_pieces_of(run_id, name), data[start : start + size], start)
        return POINTER + f"{name}:{len(starts)}".encode()

    async def unpacked(self, run_id: str, data: bytes) -> bytes:
        """What was packed. Raises `Damaged` if pieces are missing."""
        if not data.startswith(POINTER):
            return data
        name, count = data[len(POINTER) :].decode().split(":")
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PIECES_SECONDS
        while True:
            pieces = await self.everything(PIECES, _pieces_of(run_id, name))
            if len(pieces) == int(count):
                return b"".join(piece.data for piece in pieces)
            if loop.time() > give_up:
                found = f"{len(pieces)} of {count}"
                raise Damaged(f"the log of the run {run_id} has only {found} pieces of an event")
            await asyncio.sleep(AGAIN_SECONDS)

    async def _put_piece(self, subject: str, piece: bytes, start: int) -> None:
        # A piece whose answer was lost is written again, and kept once.
        headers = {api.Header.MSG_ID.value: f"{subject}:{start}"}
        await self.patiently(lambda js: js.publish(subject, piece, headers=headers))

    async def purge(self, run_id: str) -> None:
        """Forgets a run wholly."""
        await self.patiently(lambda js: js.purge_stream(STREAM, subject=subject_of(run_id)))
        pieces = _pieces_of(run_id, ">")
        await self.patiently(lambda js: js.purge_stream(PIECES, subject=pieces))
        await self.records.drop(run_id)
        await self.open_runs.drop(run_id)

    async def everything(self, stream: str, subject: str, begin: int = 1) -> list[Kept]:
        """All messages of a stream from number `begin` on, a page after the other."""
        everything: list[Kept] = []
        on: int | None = begin
        while on is not None:
            found, on = await self._page(stream, subject, on)
            everything += found
        return everything

    async def patiently(self, attempt: Callable[[JetStreamContext], Awaitable[T]]) -> T:
        """Tries it until it works, for a while: whatever is tried must not harm if done twice."""
        js = await self._ready()
        return await _patiently(lambda: attempt(js))

    async def _page(
        self, stream: str, subject: str, begin: int, max_bytes: int = PAGE_BYTES
    ) -> tuple[list[Kept], int | None]:
        connection = await self.connection()
        return await _patiently(
            lambda: page(connection, stream, subject, begin, REQUEST_SECONDS, max_bytes)
        )

    async def _ready(self) -> JetStreamContext:
        if self.inherited:
            raise StorageError(
                "the run log's connection to NATS was opened before this process was forked:"
                " make a new client here, with a new log"
            )
        if self._js is not None:
            return self._js
        self._connector.check()
        async with self._opening:
            if self._js is None:
                self._process = os.getpid()
                self._connection = await self._connector.connect()
                js = self._connection.jetstream(REQUEST_SECONDS)
                try:
                    _check(self._connection.version)
                    await _patiently(lambda: self._make(js))
                except BaseException:
                    await self._connection.close()
                    raise
                self._js = js
        return self._js

    async def _make(self, js: JetStreamContext) -> None:
        streams = [
            api.StreamConfig(
                name=name,
                subjects=[subjects],
                storage=api.StorageType.FILE,
                num_replicas=self._replicas,
                allow_direct=True,
                duplicate_window=120.0,
            )
            for name, subjects in ((STREAM, f"{PREFIX}.*"), (PIECES, f"{PIECES_PREFIX}.>"))
        ]
        buckets = (self.records, self.open_runs, self.leases, self.orders)
        for config in (*streams, *(bucket.stream for bucket in buckets)):
            try:
                known = (await js.stream_info(str(config.name))).config
            except NotFoundError:
                await js.add_stream(config)  # pyright: ignore[reportUnknownMemberType]
            else:
                if (known.num_replicas or 1) < self._replicas:
                    known.num_replicas = self._replicas
                    await js.update_stream(known)  # pyright: ignore[reportUnknownMemberType]


def _pieces_of(run_id: str, name: str) -> str:
    return f"{PIECES_PREFIX}.{run_id}.{name}"


def _check(version: tuple[int, int]) -> None:
    if version < OLDEST:
        raise ConfigError(
            f"runs in NATS need a server of version {_dotted(OLDEST)} or later, and this one is of"
            f" {_dotted(version)}"
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


async def _patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + PATIENCE
    while True:
        try:
            return await attempt()
        except (NatsError, TimeoutError) as error:
            if loop.time() > give_up or isinstance(error, HOPELESS):
                raise StorageError(f"JetStream does not answer: {error}") from error
        await asyncio.sleep(AGAIN_SECONDS)
