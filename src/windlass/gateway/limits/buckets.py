"""Entries that gateways share in JetStream, and change only where nobody else was faster."""

import asyncio
from typing import Any, TypeVar

import msgspec
from nats.js.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from windlass.jsontext import encode_json
from windlass.messaging.connection import Connection, connect
from windlass.runs.jetstream.streams import LEASES

__all__ = ["Entries", "Entry"]

BUCKET = "WINDLASS_LIMITS"

T = TypeVar("T")


class Entries:
    """The entries, and the leases of gateways. Every method raises `NatsError`."""

    def __init__(
        self, servers: str | list[str], replicas: int, seconds: float, options: dict[str, Any]
    ) -> None:
        """`seconds` is how long one answer may take."""
        self._servers, self._replicas, self._seconds = servers, replicas, seconds
        self._options = options
        self._connection: Connection | None = None
        self._leases: KeyValue
        self._known: dict[str, Entry] = {}
        self.bucket: KeyValue

    async def open(self) -> None:
        """Finds what is there, and makes what is missing. Raises `ConfigError` too."""
        if self._connection is None or self._connection.closed:
            self._connection = await connect(self._servers, "windlass limits", self._options)
        js = self._connection.jetstream(self._seconds)
        self._leases = await js.key_value(LEASES)
        try:
            self.bucket = await js.key_value(BUCKET)
        except BucketNotFoundError:
            self.bucket = await js.create_key_value(  # pyright: ignore[reportUnknownMemberType]
                bucket=BUCKET, replicas=self._replicas
            )

    def of(self, key: str) -> "Entry":
        return self._known.setdefault(key, Entry(self, key))

    async def lives(self, keeper: str) -> bool:
        """Whether this gateway has said lately that it lives."""
        try:
            await self._leases.get(keeper)
        except KeyNotFoundError:
            return False
        return True

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class Entry:
    """One of them, as it was last seen here. Whoever changes it holds its `lock`."""

    def __init__(self, entries: Entries, key: str) -> None:
        self._entries, self._key = entries, key
        self._data, self._revision = b"", 0
        self.lock = asyncio.Lock()

    def value(self, kind: type[T]) -> T | None:
        """None for what is not there, or cannot be read."""
        try:
            return msgspec.json.decode(self._data, type=kind)
        except msgspec.DecodeError:
            return None

    async def read(self) -> None:
        try:
            found = await self._entries.bucket.get(self._key)
        except KeyNotFoundError:
            self._data, self._revision = b"", 0
        else:
            self._data, self._revision = found.value or b"", found.revision or 0

    async def write(self, value: object) -> bool:
        """Puts a value in the place of the one that was last seen; False if that is another now."""
        data = encode_json(value)
        try:
            self._revision = await self._entries.bucket.update(self._key, data, self._revision)
        except KeyWrongLastSequenceError:
            return False
        self._data = data
        return True
