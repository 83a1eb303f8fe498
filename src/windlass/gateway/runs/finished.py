"""What a gateway keeps of a run that has ended here: what can be asked about it, and no more."""

import weakref
from collections.abc import Sequence

import msgspec

from windlass.errors import clear_frames
from windlass.events import RunEnded, RunEvent, ToolRunEnded
from windlass.gateway.runs.run import GatewayRun, run_fields
from windlass.jsontext import decode_json, encode_json, is_larger
from windlass.loop.history import History
from windlass.runs.encoding import encoded
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord
from windlass.wires.chat.write_events import completion_fields
from windlass.wires.fields import JsonObject

__all__ = ["FinishedRun"]

MAX_COMPACT_BYTES = 2**18
"""Bytes of a request or of tool results above which events stay as they are: encoding them would
hold up the event loop, and their texts are most of what they take."""
RUN_BYTES = 1_200
"""What a run takes beside its events."""

_events = msgspec.json.Decoder(list[RunEvent])


class FinishedRun:
    """Holds the run's events as one piece of JSON, or none of them if a log keeps them.

    The run itself, with its plan, its request and its reply, is not held.
    """

    __slots__ = (
        "_call_ids",
        "_count",
        "_events",
        "_fields",
        "_form",
        "_head",
        "_log",
        "_shared",
        "id",
        "owner",
        "size",
    )

    def __init__(self, run: GatewayRun, log: RunLog | None) -> None:
        self.id, self.owner = run.id, run.owner
        self._fields = _exact(encode_json(run_fields(run)))
        self._head, self._call_ids, self._form = run.head, run.call_ids, run.request.form
        self._log = log
        events = run.run.log.recorded()
        self._count = len(events)
        self._events = b"" if log is not None else _compact(events, run.request.size)
        self._shared: weakref.ref[MemoryLog] | None = None
        """The events for all who read them now: they are decoded once, and not for each reader."""
        encoded_here = isinstance(self._events, bytes)
        self.size = RUN_BYTES + (len(self._events) if encoded_here else run.size)
        """The bytes of memory that it takes, about."""
        clear_frames(run.run.error)

    async def fields(self, *, whole: bool = True) -> JsonObject:
        fields: JsonObject = decode_json(self._fields)
        if whole and fields["status"] == "ended":
            reply = History(await self.events()).reply()
            fields["response"] = completion_fields(self._head, reply, self._call_ids, self._form)
        return fields

    async def events(self) -> Sequence[RunEvent]:
        """Raises `RunNotFound` if a log kept them and has deleted them."""
        return self._here() if self._log is None else await self._log.read(self.id)

    @property
    def record(self) -> RunRecord:
        """What a log would know of a run that none keeps."""
        fields, events = decode_json(self._fields), self._here()
        end = events[-1]
        assert isinstance(end, RunEnded)
        return RunRecord(
            id=self.id,
            model=self._head.model,
            created=float(self._head.created),
            owner=self.owner,
            chat=fields["chat_id"] or "",
            title=fields["title"],
            ended=end.time,
            reason=end.reason,
            error=end.error,
            events=self._count,
            size=self.size,
        )

    async def stop(self) -> None:
        """It has ended."""

    async def approve(self, decision: object) -> bool:
        """No call of it waits for a decision."""
        return False

    def follow(self, after: int) -> Follower | None:
        """The events after that number; None if there are none."""
        if after >= self._count:
            return None
        if self._log is not None:
            return self._log.follow(self.id, after)
        log = self._shared and self._shared()
        if log is None:
            log = MemoryLog(self._here())
            self._shared = weakref.ref(log)
        return log.follow(after)

    def _here(self) -> Sequence[RunEvent]:
        return _events.decode(self._events) if isinstance(self._events, bytes) else self._events


def _compact(events: Sequence[RunEvent], asked: int) -> bytes | Sequence[RunEvent]:
    """The events as JSON, which takes about half; as they are if that would take long or fails.

    Those of a long run are packed already.
    """
    if not isinstance(events, tuple):
        return events
    results = (event.response.response for event in events if type(event) is ToolRunEnded)
    if asked > MAX_COMPACT_BYTES or any(is_larger(result, MAX_COMPACT_BYTES) for result in results):
        return events
    try:
        return _exact(encoded(events))
    except Exception:  # noqa: BLE001 - whatever a tool has put into its result
        return events


def _exact(data: bytes) -> bytes:
    """The same bytes in as much memory as they need: an encoder's own have room for half more."""
    return memoryview(data).tobytes()
