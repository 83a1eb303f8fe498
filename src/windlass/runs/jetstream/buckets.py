"""What is kept by key: the newest value alone, in a stream laid out like NATS's own buckets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

import nats.js.api as api
from nats.js.errors import APIError, NotFoundError

from windlass.messaging.connection import JetStreamContext
from windlass.runs.jetstream.reading import Kept

__all__ = ["WRONG_SEQUENCE", "Bucket", "Entry", "Place"]

WRONG_SEQUENCE = (10071, 10164)
"""What JetStream says if another message is the last than the one that was named."""

CATCHING_UP = 20
"""How often what others write meanwhile is read too; they may never end."""
AGAIN_SECONDS = 0.05

T = TypeVar("T")


class Place(Protocol):
    """Where the streams are: what is done there is tried again for a while."""

    async def patiently(self, attempt: Callable[[JetStreamContext], Awaitable[T]]) -> T: ...
    async def everything(self, stream: str, subject: str, begin: int) -> list[Kept]: ...


class Entry(NamedTuple):
    value: bytes
    revision: int


class Bucket:
    """Every method raises `StorageError`."""

    def __init__(self, place: Place, name: str, replicas: int, ttl: float | None = None) -> None:
        self._place = place
        self._known: dict[str, Entry] = {}
        self._newest = 0
        self._changed: set[str] | None = None
        """Keys that were set or taken out since `changes` was called last, if it ever was."""
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
        """All that is written here passes by on it."""
        return f"{self._prefix}>"

    def key_in(self, subject: str) -> str:
        return subject.removeprefix(self._prefix)

    async def get(self, key: str) -> Entry | None:
        """From the leader: what was written before is seen."""

        async def attempt(js: JetStreamContext) -> Entry | None:
            try:
                found = await js.get_last_msg(self._name, self._prefix + key)
            except NotFoundError:
                return None
            return Entry(found.data or b"", found.seq or 0)

        return await self._place.patiently(attempt)

    async def put(self, key: str, value: bytes) -> int:
        """Sets the key; returns the revision, which is larger than every earlier one."""
        ack = await self._place.patiently(lambda js: js.publish(self._prefix + key, value))
        return ack.seq

    async def replace(self, key: str, value: bytes, revision: int) -> bool:
        """Sets the key if it is still of that revision; False if it is not, or was set already by
        a try whose answer was lost."""
        headers = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(revision)}

        async def attempt(js: JetStreamContext) -> bool:
            try:
                await js.publish(self._prefix + key, value, headers=headers)
            except APIError as error:
                if error.err_code in WRONG_SEQUENCE:
                    return False
                raise
            return True

        return await self._place.patiently(attempt)

    async def drop(self, key: str) -> None:
        """Takes the key out wholly, or all below it if it ends in `.>`."""
        subject = self._prefix + key
        await self._place.patiently(lambda js: js.purge_stream(self._name, subject=subject))
        # Then the others need not be read again to notice it here.
        if self._known.pop(key, None) is not None and self._changed is not None:
            self._changed.add(key)

    async def all(self) -> dict[str, Entry]:
        """Everything, by key, as it was written before; only what is new is read."""
        async with self._reading:
            await self._read_news()
            return dict(self._known)

    async def changes(self) -> dict[str, Entry | None]:
        """What was set, or taken out (None), since this was called last; at first, everything."""
        async with self._reading:
            await self._read_news()
            changed, self._changed = self._changed, set()
            keys = self._known.keys() if changed is None else changed
            return {key: self._known.get(key) for key in keys}

    async def _read_news(self) -> None:
        await self._catch_up()
        if len(self._known) == await self._count():
            return
        # What others take out leaves no trace: everything is read again.
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
        for _ in range(CATCHING_UP):
            found = await self._place.everything(self._name, self.subject, self._newest + 1)
            for each in found:
                key, entry = self.key_in(each.subject), Entry(each.data, each.number)
                self._known[key] = entry
                if self._changed is not None:
                    self._changed.add(key)
                self._newest = max(self._newest, each.number)
            if not await self._has_more():
                return
            await asyncio.sleep(0 if found else AGAIN_SECONDS)

    async def _has_more(self) -> bool:
        """Whether the leader has what the server that was read from did not have yet."""

        async def attempt(js: JetStreamContext) -> bool:
            try:
                await js.get_msg(self._name, self._newest + 1, self.subject, next=True)
            except NotFoundError:
                return False
            return True

        return await self._place.patiently(attempt)

    async def _count(self) -> int:
        info = await self._place.patiently(lambda js: js.stream_info(self._name))
        return info.state.messages
