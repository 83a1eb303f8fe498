"""Calls put together from deltas, as real servers send them.

The rules name a call by `index`, and give its id and name once. Servers in use leave the index out,
give every call the index 0, repeat the id or the name in each delta, or send calls whole. Pure.
"""

from collections.abc import Iterable

from windlass.content import FunctionCall, new_call_id
from windlass.events import ModelEvent, ToolCallDelta, ToolCallEnded, ToolCallStarted
from windlass.models.fields import JsonObject, as_list, as_object, as_text, merged
from windlass.models.openai.decode import arguments_text, call_extra, google_signature
from windlass.models.openai.media import PROVIDER

__all__ = ["CallAssembler"]


class _Call:
    """A call while it comes in."""

    __slots__ = ("ended", "extra", "id", "index", "name", "pieces", "wire_id", "wire_index")

    def __init__(self, index: int, wire_index: int | None, wire_id: str | None, name: str) -> None:
        self.index = index
        self.wire_index, self.wire_id = wire_index, wire_id
        self.id = wire_id or new_call_id()
        self.name = name
        self.pieces: list[str] = []
        self.extra: JsonObject = {}
        self.ended = False

    def whole(self) -> FunctionCall:
        extra = {PROVIDER: self.extra} if self.extra else {}
        text = "".join(self.pieces)
        return FunctionCall(self.name, text, self.id, google_signature(self.extra), extra=extra)

    def is_complete(self) -> bool:
        """Whether the arguments are an object already. The last piece tells most of it cheaply."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return self.whole().error is None


class CallAssembler:
    """Deltas in, call events out; a call ends when the next one starts or the turn does."""

    __slots__ = ("_by_index", "_by_wire_id", "_calls", "_ids", "_open")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._open: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_wire_id: dict[str, _Call] = {}
        """The last call with each index and with each id of the server's."""
        self._ids: set[str] = set()

    def feed(self, entries: object, *, whole: bool) -> list[ModelEvent]:
        """The events of one `tool_calls` list. `whole`: each entry is a call of its own."""
        events: list[ModelEvent] = []
        touched: set[int] = set()
        for entry in as_list(entries) or [entries]:
            fields = as_object(entry)
            if fields is None:
                continue
            call = None if whole else self._continued(fields, touched)
            if call is None:
                call = self._started(fields, events)
            touched.add(call.index)
            self._extended(call, fields, events)
            if whole:
                events.append(self._ended(call))
        return events

    def end(self) -> list[ModelEvent]:
        """The ends of all calls that are still open."""
        open_calls, self._open = self._open, []
        return [self._ended(call) for call in open_calls if not call.ended]

    def _continued(self, fields: JsonObject, touched: set[int]) -> _Call | None:
        """The call that this delta goes on with; None if it starts one."""
        wire_index, wire_id, name = _head(fields)
        candidates: Iterable[_Call] = reversed(self._calls)
        if wire_index is not None:
            candidates = filter(None, (self._by_index.get(wire_index),))
        elif wire_id is not None and name:
            candidates = filter(None, (self._by_wire_id.get(wire_id),))
        for call in candidates:
            if wire_id is not None:
                # A new id at an old index is a new call; so is one that brings its own name.
                if call.wire_id == wire_id or (call.wire_id is None and not name):
                    return call
                if wire_index is not None:
                    return None
                continue
            return None if name and self._begins_anew(call, name, touched) else call
        return None

    def _begins_anew(self, call: _Call, name: str, touched: set[int]) -> bool:
        """Whether a name without an id starts another call rather than repeats the same one's."""
        if call.ended or call.index in touched or call.is_complete():
            return True
        return bool(call.pieces) and name != call.name

    def _started(self, fields: JsonObject, events: list[ModelEvent]) -> _Call:
        for open_call in self._open:
            if not open_call.ended and open_call.is_complete():
                events.append(self._ended(open_call))
        self._open = [each for each in self._open if not each.ended]
        call = _Call(len(self._calls), *_head(fields))
        if call.id in self._ids:
            # Answers are matched by id: two calls of one turn must not share it.
            call.id = new_call_id()
        self._ids.add(call.id)
        self._calls.append(call)
        self._open.append(call)
        if call.wire_index is not None:
            self._by_index[call.wire_index] = call
        if call.wire_id is not None:
            self._by_wire_id[call.wire_id] = call
        events.append(ToolCallStarted(call.index, call.id, call.name))
        return call

    def _extended(self, call: _Call, fields: JsonObject, events: list[ModelEvent]) -> None:
        if call.ended:
            return
        function = as_object(fields.get("function")) or {}
        name = as_text(function.get("name")) or ""
        if name != call.name and not call.pieces:
            # The name in pieces, or late.
            call.name = name if name.startswith(call.name) else call.name + name
        if extra := call_extra(fields):
            call.extra = merged(call.extra, extra)
        if text := arguments_text(function.get("arguments")):
            call.pieces.append(text)
            events.append(ToolCallDelta(call.index, text))

    def _ended(self, call: _Call) -> ToolCallEnded:
        call.ended = True
        return ToolCallEnded(call.index, call.whole())


def _head(fields: JsonObject) -> tuple[int | None, str | None, str]:
    """What names the call in a delta: index, id and function's name, each if it is there."""
    index, function = fields.get("index"), as_object(fields.get("function")) or {}
    return (
        index if isinstance(index, int) else None,
        as_text(fields.get("id")) or None,
        as_text(function.get("name")) or "",
    )
