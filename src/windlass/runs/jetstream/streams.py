"""The JetStream streams: one of events, one of pieces of large values, and four key-value buckets.

A value that is too large for a message is written in pieces, and a pointer replaces it.

Every append names the message that it follows: if two processes believe that they own a run, only
one can write it.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import nats.js.api as api
from nats.errors import ConnectionClosedError, MaxPayloadError, NoRespondersError
from nats.js.errors import APIError, NotFoundError

from windlass.errors import ConfigError, StorageError
from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection, Connector, JetStreamContext, Msg, NatsError
from windlass.runs.persisted_log import Damaged, TakenOver

STREAM = "WINDLASS_LOG"
PIECES = "WINDLASS_PIECES"
RECORDS = "WINDLASS_RUNS"
OPEN = "WINDLASS_OPEN"
LEASES = "WINDLASS_LEASES"
ORDERS = "WINDLASS_ORDERS"
PREFIX = "windlass.v1.log"
PIECES_PREFIX = "windlass.v1.pieces"
POINTER = b"\0"
"""A pointer starts with this byte, which JSON never does."""
PIECE_BYTES = 2**20
HEADER_BYTES = 4096
"""Room for the headers of a message, which count towards the server's `max_payload`."""
SIZE, ID = "Windlass-Size", "Windlass-Batch"
REQUEST_SECONDS = 2.0
"""The time-out of one attempt: its request may have reached a dead server."""
RETRY_SECONDS = 30.0
"""How long to retry: a cluster that has lost its leader elects another."""
RETRY_INTERVAL = 0.1
MIN_VERSION = (2, 11)
"""The first version of NATS that returns many messages at once."""
PIECES_SECONDS = 5.0
"""How long to wait for missing pieces: the server that answers may be behind."""
FATAL_ERRORS = (ConnectionClosedError, MaxPayloadError)
PAGE_MESSAGES = 256
MAX_PAGE_BYTES = 16 * 2**20
DONE, NOT_FOUND, NO_RESPONDERS = "204", "404", "503"
WRONG_SEQUENCE = (10071, 10164)
"""JetStream's error codes if the last message is not the expected one."""

MAX_CATCH_UPS = 20
"""How many times to read what other processes wrote during the previous read. They may write
without a pause."""
CATCH_UP_SECONDS = 0.05

T = TypeVar("T")


class StoredMessage(NamedTuple):
    """A message of a stream, with its number."""

    number: int
    subject: str
    data: bytes


async def page(
    connection: Connection,
    stream: str,
    subject: str,
    begin: int,
    seconds: float,
    max_bytes: int = MAX_PAGE_BYTES,
) -> tuple[list[StoredMessage], int | None]:
    """Returns messages from number `begin` on, and the next number; None if these were all.

    The server that answers may be slightly behind the stream's leader. Raises `NatsError`, and
    `TimeoutError` if there is no answer within `seconds`.
    """
    request = {
        "seq": begin,
        "next_by_subj": subject,
        "batch": PAGE_MESSAGES,
        "max_bytes": max_bytes,
    }
    *messages, end = await connection.answers(
        f"$JS.API.DIRECT.GET.{stream}", encode_json(request), seconds
    )
    status = _header(end, "Status")
    if status == NO_RESPONDERS:
        raise NoRespondersError
    if status not in (DONE, NOT_FOUND):
        raise NatsError(f"{status} {_header(end, 'Description')}")
    left = int(_header(end, "Nats-Num-Pending") or 0)
    next_number = int(_header(end, "Nats-Last-Sequence")) + 1 if left else None
    found = [_stored(message) for message in messages if not _header(message, "KV-Operation")]
    return found, next_number


def _stored(message: Msg) -> StoredMessage:
    number = int(_header(message, "Nats-Sequence"))
    return StoredMessage(number, _header(message, "Nats-Subject"), message.data)


def _header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")


class StreamAccess(Protocol):
    """Access to the streams. Retries failed requests for a while."""

    async def with_retries(self, attempt: Callable[[JetStreamContext], Awaitable[T]]) -> T: ...
    async def all_messages(self, stream: str, subject: str, begin: int) -> list[StoredMessage]: ...


class BucketEntry(NamedTuple):
    value: bytes
    revision: int


class Bucket:
    """A key-value bucket. Every method raises `StorageError`."""

    def __init__(
        self, access: StreamAccess, name: str, replicas: int, ttl: float | None = None
    ) -> None:
        self._access = access
        self._known: dict[str, BucketEntry] = {}
        self._newest = 0
        self._changed: set[str] | None = None
        """Keys that changed since the last call of `changes`; None if it was never called."""
        self._reading = asyncio.Lock()
        self._prefix = f"$KV.{name}."
        self._name = f"KV_{name}"
        self.stream = api.StreamConfig(
            name=self._name,
            subjects=[f"{self._prefix}>"],
            storage=api.StorageType.FILE,
            num_replicas=replicas,
            max_age=ttl,
            max_msgs_per_subject=1,
            duplicate_window=min(ttl or 120.0, 120.0),
            discard=api.DiscardPolicy.NEW,
            allow_rollup_hdrs=True,
            allow_direct=True,
            deny_delete=True,
        )

    @property
    def subject(self) -> str:
        """The subject of all messages of the bucket."""
        return f"{self._prefix}>"

    def key_in(self, subject: str) -> str:
        return subject.removeprefix(self._prefix)

    async def get(self, key: str) -> BucketEntry | None:
        """Reads from the leader, which has all earlier writes."""

        async def attempt(js: JetStreamContext) -> BucketEntry | None:
            try:
                found = await js.get_last_msg(self._name, self._prefix + key)
            except NotFoundError:
                return None
            return BucketEntry(found.data or b"", found.seq or 0)

        return await self._access.with_retries(attempt)

    async def put(self, key: str, value: bytes) -> int:
        """Sets the key. Returns its revision, which is larger than every earlier one."""
        ack = await self._access.with_retries(lambda js: js.publish(self._prefix + key, value))
        return ack.seq

    async def replace(self, key: str, value: bytes, revision: int) -> bool:
        """Sets the key if it still has that revision. Returns False if it does not, also if an
        earlier attempt set it and its answer was lost."""
        headers = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(revision)}

        async def attempt(js: JetStreamContext) -> bool:
            try:
                await js.publish(self._prefix + key, value, headers=headers)
            except APIError as error:
                if error.err_code in WRONG_SEQUENCE:
                    return False
                raise
            return True

        return await self._access.with_retries(attempt)

    async def drop(self, key: str) -> None:
        """Removes the key and its history, or all keys below it if it ends in `.>`."""
        subject = self._prefix + key
        await self._access.with_retries(lambda js: js.purge_stream(self._name, subject=subject))
        # Update the cache too, so that the removal does not cause a full read.
        if self._known.pop(key, None) is not None and self._changed is not None:
            self._changed.add(key)

    async def all(self) -> dict[str, BucketEntry]:
        """Returns all entries by key. Reads only what changed since the last call."""
        async with self._reading:
            await self._read_changes()
            return dict(self._known)

    async def changes(self) -> dict[str, BucketEntry | None]:
        """Returns the entries that changed since the last call (None: removed); at first, all."""
        async with self._reading:
            await self._read_changes()
            changed, self._changed = self._changed, set()
            keys = self._known.keys() if changed is None else changed
            return {key: self._known.get(key) for key in keys}

    async def _read_changes(self) -> None:
        await self._catch_up()
        if len(self._known) == await self._count():
            return
        # Removals by other processes leave no trace, so read everything again.
        before, newest = self._known, self._newest
        self._known, self._newest = {}, 0
        try:
            await self._catch_up()
        except BaseException:
            self._known, self._newest = before, newest
            raise
        if self._changed is not None:
            self._changed |= before.keys() - self._known.keys()

    async def _catch_up(self) -> None:
        for _ in range(MAX_CATCH_UPS):
            found = await self._access.all_messages(self._name, self.subject, self._newest + 1)
            for each in found:
                key, entry = self.key_in(each.subject), BucketEntry(each.data, each.number)
                self._known[key] = entry
                if self._changed is not None:
                    self._changed.add(key)
                self._newest = max(self._newest, each.number)
            if not await self._has_more():
                return
            await asyncio.sleep(0 if found else CATCH_UP_SECONDS)

    async def _has_more(self) -> bool:
        """Whether the leader has messages that the server did not have yet."""

        async def attempt(js: JetStreamContext) -> bool:
            try:
                await js.get_msg(self._name, self._newest + 1, self.subject, next=True)
            except NotFoundError:
                return False
            return True

        return await self._access.with_retries(attempt)

    async def _count(self) -> int:
        info = await self._access.with_retries(lambda js: js.stream_info(self._name))
        return info.state.messages


class Append(NamedTuple):
    """A batch to write after message number `after`."""

    run_id: str
    data: bytes
    after: int
    size: int
    """The size of the run's whole log, including this batch."""
    id: str
    """Identifies the batch, to detect an earlier attempt whose answer was lost."""


class Last(NamedTuple):
    """The newest batch of a run, and the size of all batches."""

    number: int
    data: bytes
    size: int
    id: str = ""


def subject_of(run_id: str) -> str:
    return f"{PREFIX}.{run_id}"


class Streams:
    """Access to the streams. The first process that uses them creates them.

    Every method raises `StorageError` (`NatsUnreachable` if NATS is unreachable), and
    `ConfigError` if the server is not suitable.
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
        """The process that opened the connection. Its forks share the socket and must not use it.
        """
        self.records = Bucket(self, RECORDS, replicas)
        self.open_runs = Bucket(self, OPEN, replicas)
        self.leases = Bucket(self, LEASES, replicas, lease)
        self.orders = Bucket(self, ORDERS, replicas)

    @property
    def inherited(self) -> bool:
        """Whether a parent process opened the connection before it forked this one."""
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
        """Writes the batch and returns the number of its message. Raises `TakenOver`."""
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
                    raise  # another error, or the cluster has not settled yet
                # The last message may be this batch, from an attempt whose answer was lost.
                if last.id != batch.id:
                    text = f"another process has taken over run {batch.run_id}"
                    raise TakenOver(text) from error
                return last.number

        return await self.with_retries(attempt)

    async def batches(
        self, run_id: str, begin: int = 1, *, whole: bool = False, max_bytes: int = MAX_PAGE_BYTES
    ) -> AsyncGenerator[tuple[int, bytes]]:
        """Yields the run's batches from message number `begin` on, each with its number.

        Requests `max_bytes` at a time. The batches may come from a server that is slightly behind.
        With `whole`, all batches are read that were written before.
        """
        position: int | None = begin
        while position is not None:
            found, position = await self._page(STREAM, subject_of(run_id), position, max_bytes)
            for each in found:
                yield each.number, await self.unpacked(run_id, each.data)
                begin = each.number + 1
            if not whole or position is not None:
                continue
            if (last := await self.last(run_id)) and last.number >= begin:
                position = begin
                await asyncio.sleep(0 if found else RETRY_INTERVAL)

    async def last(self, run_id: str) -> Last | None:
        """Returns the run's newest batch; None if the run has none."""

        async def attempt(js: JetStreamContext) -> Last | None:
            try:
                found = await js.get_last_msg(STREAM, subject_of(run_id))
            except NotFoundError:
                return None
            headers = cast("dict[str, str]", found.headers or {})
            size, name = int(headers.get(SIZE, "0")), headers.get(ID, "")
            return Last(found.seq or 0, found.data or b"", size, name)

        last = await self.with_retries(attempt)
        return last and last._replace(data=await self.unpacked(run_id, last.data))

    async def packed(self, run_id: str, data: bytes) -> bytes:
        """Returns the data. If it is too large for a message, writes it in pieces, and returns a
        pointer to them."""
        max_size = (await self.connection()).max_payload - HEADER_BYTES
        if len(data) <= max_size:
            return data
        name, size = secrets.token_hex(8), min(max_size, PIECE_BYTES)
        starts = range(0, len(data), size)
        for start in starts:
            await self._put_piece(_pieces_of(run_id, name), data[start : start + size], start)
        return POINTER + f"{name}:{len(starts)}".encode()

    async def unpacked(self, run_id: str, data: bytes) -> bytes:
        """Returns the data that was packed. Raises `Damaged` if pieces are missing."""
        if not data.startswith(POINTER):
            return data
        name, count = data[len(POINTER) :].decode().split(":")
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PIECES_SECONDS
        while True:
            pieces = await self.all_messages(PIECES, _pieces_of(run_id, name))
            if len(pieces) == int(count):
                return b"".join(piece.data for piece in pieces)
            if loop.time() > give_up:
                found = f"{len(pieces)} of {count}"
                raise Damaged(
                    f"the log of run {run_id} is damaged: an event has only {found} pieces"
                )
            await asyncio.sleep(RETRY_INTERVAL)

    async def _put_piece(self, subject: str, piece: bytes, start: int) -> None:
        # The message id deduplicates a piece that is written again after a lost answer.
        headers = {api.Header.MSG_ID.value: f"{subject}:{start}"}
        await self.with_retries(lambda js: js.publish(subject, piece, headers=headers))

    async def purge(self, run_id: str) -> None:
        """Deletes a run and all its data."""
        await self.with_retries(lambda js: js.purge_stream(STREAM, subject=subject_of(run_id)))
        pieces = _pieces_of(run_id, ">")
        await self.with_retries(lambda js: js.purge_stream(PIECES, subject=pieces))
        await self.records.drop(run_id)
        await self.open_runs.drop(run_id)

    async def all_messages(self, stream: str, subject: str, begin: int = 1) -> list[StoredMessage]:
        """Returns all messages of a stream from number `begin` on, reading page by page."""
        messages: list[StoredMessage] = []
        position: int | None = begin
        while position is not None:
            found, position = await self._page(stream, subject, position)
            messages += found
        return messages

    async def with_retries(self, attempt: Callable[[JetStreamContext], Awaitable[T]]) -> T:
        """Retries `attempt` until it succeeds or the time is up. It must be safe to repeat."""
        js = await self._ready()
        return await _with_retries(lambda: attempt(js))

    async def _page(
        self, stream: str, subject: str, begin: int, max_bytes: int = MAX_PAGE_BYTES
    ) -> tuple[list[StoredMessage], int | None]:
        connection = await self.connection()
        return await _with_retries(
            lambda: page(connection, stream, subject, begin, REQUEST_SECONDS, max_bytes)
        )

    async def _ready(self) -> JetStreamContext:
        if self.inherited:
            raise StorageError(
                "the run log's connection to NATS was opened before this process was forked:"
                " create a new client here, with a new log"
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
                    await _with_retries(lambda: self._make(js))
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
    if version < MIN_VERSION:
        raise ConfigError(
            f"the run log needs NATS {_dotted(MIN_VERSION)} or later, but the server is"
            f" {_dotted(version)}"
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


async def _with_retries(attempt: Callable[[], Awaitable[T]]) -> T:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + RETRY_SECONDS
    while True:
        try:
            return await attempt()
        except (NatsError, TimeoutError) as error:
            if loop.time() > give_up or isinstance(error, FATAL_ERRORS):
                raise StorageError(f"JetStream does not answer: {error}") from error
        await asyncio.sleep(RETRY_INTERVAL)
