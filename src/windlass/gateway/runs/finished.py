"""A compact form of an ended run, which answers all requests about it."""

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

MAX_COMPACT_BYTES = 2**18
"""The size of a request or a tool result above which events are not encoded: encoding would block
the event loop, and would save little, because most of the memory is text."""
RUN_BYTES = 1_200
"""The approximate memory of a run without its events."""

_events = msgspec.json.Decoder(list[RunEvent])


class FinishedRun:
    """Holds the run's events as JSON, or no events if a log stores them.

    Does not hold the run with its plan, its request and its reply.
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
        """The decoded events, shared by all current readers."""
        encoded_here = isinstance(self._events, bytes)
        self.size = RUN_BYTES + (len(self._events) if encoded_here else run.size)
        """The approximate memory, in bytes."""
        clear_frames(run.run.error)

    async def fields(self, *, whole: bool = True) -> JsonObject:
        fields: JsonObject = decode_json(self._fields)
        if whole and fields["status"] == "ended":
            reply = History(await self.events()).reply()
            fields["response"] = completion_fields(self._head, reply, self._call_ids, self._form)
        return fields

    async def events(self) -> Sequence[RunEvent]:
        """Raises `RunNotFound` if the log has deleted them."""
        return self._decoded() if self._log is None else await self._log.read(self.id)

    @property
    def record(self) -> RunRecord:
        """The record that a log would have of the run."""
        fields, events = decode_json(self._fields), self._decoded()
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
        """Does nothing: the run has ended."""

    async def approve(self, decision: object) -> bool:
        """Returns False: no call waits for a decision."""
        return False

    def follow(self, after: int) -> Follower | None:
        """Follows the events after that number; None if there are none."""
        if after >= self._count:
            return None
        if self._log is not None:
            return self._log.follow(self.id, after)
        log = self._shared and self._shared()
        if log is None:
            log = MemoryLog(self._decoded())
            self._shared = weakref.ref(log)
        return log.follow(after)

    def _decoded(self) -> Sequence[RunEvent]:
        return _events.decode(self._events) if isinstance(self._events, bytes) else self._events


def _compact(events: Sequence[RunEvent], request_size: int) -> bytes | Sequence[RunEvent]:
    """The events as JSON, which takes about half the memory; unchanged if that is slow or fails.

    The events of a long run are packed already.
    """
    if not isinstance(events, tuple):
        return events
    results = (event.response.response for event in events if type(event) is ToolRunEnded)
    if request_size > MAX_COMPACT_BYTES or any(
        is_larger(result, MAX_COMPACT_BYTES) for result in results
    ):
        return events
    try:
        return _exact(encoded(events))
    except Exception:  # noqa: BLE001 - a tool's result may contain any object
        return events


def _exact(data: bytes) -> bytes:
    """A copy without spare capacity: encoders allocate up to half more than they use."""
    return memoryview(data).tobytes()
