"""Key-value buckets: streams in the layout of NATS's own buckets, with one value per key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

import nats.js.api as api
from nats.js.errors import APIError, NotFoundError

from windlass.messaging.connection import JetStreamContext
from windlass.runs.jetstream.reading import StoredMessage

WRONG_SEQUENCE = (10071, 10164)
"""JetStream's error codes if the last message is not the expected one."""

MAX_CATCH_UPS = 20
"""How often to read again what other processes write meanwhile; they may never stop."""
CATCH_UP_SECONDS = 0.05

T = TypeVar("T")


class StreamAccess(Protocol):
    """Access to the streams. Retries failed requests for a while."""

    async def with_retries(self, attempt: Callable[[JetStreamContext], Awaitable[T]]) -> T: ...
    async def all_messages(self, stream: str, subject: str, begin: int) -> list[StoredMessage]: ...


class Entry(NamedTuple):
    value: bytes
    revision: int


class Bucket:
    """A key-value bucket. Every method raises `StorageError`."""

    def __init__(
        self, access: StreamAccess, name: str, replicas: int, ttl: float | None = None
    ) -> None:
        self._access = access
        self._known: dict[str, Entry] = {}
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

    async def get(self, key: str) -> Entry | None:
        """Reads from the leader, which has all earlier writes."""

        async def attempt(js: JetStreamContext) -> Entry | None:
            try:
                found = await js.get_last_msg(self._name, self._prefix + key)
            except NotFoundError:
                return None
            return Entry(found.data or b"", found.seq or 0)

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

    async def all(self) -> dict[str, Entry]:
        """Returns all entries by key. Reads only what changed since the last call."""
        async with self._reading:
            await self._read_changes()
            return dict(self._known)

    async def changes(self) -> dict[str, Entry | None]:
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
                key, entry = self.key_in(each.subject), Entry(each.data, each.number)
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
