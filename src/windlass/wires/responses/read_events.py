"""Decodes a response, streamed or in one body, into model events. Pure."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from windlass.content import FunctionCall, Opaque, PrivateText, Usage, new_call_id
from windlass.errors import ModelError, StreamCut
from windlass.events import (
    FinishReason,
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.jsontext import LARGE, compact_json, decode_json, outline
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest, whole
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.messages import reasoning_text
from windlass.wires.responses.write_request import RESPONSE_ID
from windlass.wires.upstream_errors import problem_in, redacted

MAX_VALUES = 5_000_000
MAX_DEPTH = 500
"""Limits of a large answer, which is read in steps; the interpreter limits the others."""

INCOMPLETE: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
    "content_filter": "content_filter",
}
"""Why a response is incomplete; other reasons are `other`."""
_FAILED = ("failed", "cancelled")
_CALLS = ("function_call", "custom_tool_call")


_NOTHING = Raw(b"")


class _Event(Struct):
    """One event. The large values stay raw: most of them are not needed."""

    type: str = ""
    delta: Any = None
    output_index: int | None = None
    item_id: str | None = None
    logprobs: Any = None
    text: Any = None
    refusal: Any = None
    part: Any = None
    arguments: Any = None
    input: Any = None
    item: Raw = _NOTHING
    response: Raw = _NOTHING
    error: Any = None
    code: Any = None
    message: Any = None
    # Fields of a whole response, for a server that answers in the other form.
    object: Any = None


class _Item:
    """An output item that is being received."""

    __slots__ = ("call", "ended", "index", "pieces", "summaries", "texts")

    def __init__(self) -> None:
        self.call: JsonObject | None = None
        """The fields of a call, as it started."""
        self.index = -1
        """The call's number in this turn."""
        self.pieces: list[str] = []
        """Of the call's arguments."""
        self.texts = 0
        """The number of pieces of text so far."""
        self.summaries = 0
        """The number of parts of the reasoning so far."""
        self.ended = False


_decode = msgspec.json.Decoder(_Event).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_NO_USAGE = Usage()


class AnswerDecoder:
    """Decodes streamed events or one body; `finish` returns the final events.

    With `keep_id`, the turn keeps the id of its response, so that the next request can continue it.
    """

    __slots__ = (
        "_about",
        "_calls",
        "_has_text",
        "_id",
        "_items",
        "_keep_id",
        "_refusal",
        "_secrets",
        "_status",
        "_usage",
        "_why",
        "done",
    )

    def __init__(self, secrets: Iterable[str] = (), *, keep_id: bool = False) -> None:
        self.done = False
        self._secrets, self._keep_id = secrets, keep_id
        self._items: dict[int | str, _Item] = {}
        self._calls = 0
        self._has_text = False
        self._refusal: list[str] = []
        self._status = ""
        self._why = ""
        self._usage: JsonObject | None = None
        self._id: str | None = None
        self._about: JsonObject | None = None

    @property
    def finished(self) -> bool:
        return bool(self._status)

    @property
    def usage(self) -> Usage:
        """The tokens that the service has reported so far."""
        return _NO_USAGE if self._usage is None else usage_from(self._usage)

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one payload. Raises `ModelError` for an error or an unreadable payload."""
        try:
            event = _decode(payload) if len(payload) <= LARGE else _decode_large(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if payload == b"[DONE]" or not payload:
                self.done = self.done or bool(payload and self._status)
                return []
            event = _repaired(payload)
        kind = event.type
        if kind == "response.output_text.delta" and not event.logprobs:
            text = event.delta
            if type(text) is str and text:
                self._item(event).texts += 1
                self._has_text = True
                return [TextDelta(text)]
            return []
        decode = self._DECODERS.get(kind)
        if decode is None:
            if not kind and event.error:  # an error without a type
                raise problem_in(event.error, self._secrets)
            return []
        events: list[ModelEvent] = []
        decode(self, event, events)
        return events

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a whole body. Raises `ModelError` for an error or an unreadable body."""
        fields: JsonObject = {}
        if body.lstrip()[:1] != b"<":
            try:
                fields = as_object(decode_json(body) if len(body) <= LARGE else _large(body)) or {}
            except ValueError as error:
                raise StreamCut("the model's answer cannot be read") from error
        if (error := fields.get("error")) and fields.get("object") != "response":
            raise problem_in(error, self._secrets)
        if "output" not in fields:
            shown = redacted(body[:200].decode("utf-8", "replace"), self._secrets)
            message = f"the answer is not a response; check base_url: {shown}"
            public = "{upstream} did not answer with a response"
            raise ModelError(PrivateText(message), public=public)
        if fields.get("status") in ("queued", "in_progress"):
            raise ModelError(
                f"the response is not complete (status {fields['status']}): omit background"
            )
        events: list[ModelEvent] = []
        self._end(fields, events)
        return events

    def finish(self) -> list[ModelEvent]:
        """The last events. Raises `StreamCut` if the stream stopped before the turn ended."""
        if not self._status:
            raise StreamCut
        usage = self.usage
        finish, detail = self._ending()
        events: list[ModelEvent] = []
        extra: JsonObject = {}
        if self._refusal:
            extra["refusal"] = "".join(self._refusal)
        if self._keep_id and self._id:
            extra[RESPONSE_ID] = self._id
        events.append(
            TurnEnded(finish, usage, detail, {PROVIDER: extra} if extra else None, self._about)
        )
        return events

    def _ending(self) -> tuple[FinishReason, str | None]:
        if self._status == "incomplete":
            return INCOMPLETE.get(self._why, "other"), self._why or "incomplete"
        if self._calls:
            return "tool_calls", None
        if self._refusal and not self._has_text:
            return "content_filter", "".join(self._refusal)
        return "stop", None

    def _item(self, event: _Event) -> _Item:
        """The item of an event. Some servers omit one of its two names."""
        keys = (event.item_id, event.output_index)
        for key in keys:
            if key is not None and (known := self._items.get(key)) is not None:
                return known
        made = _Item()
        for key in keys:
            if key is not None:
                self._items[key] = made
        return made

    def _text(self, event: _Event, events: list[ModelEvent]) -> None:
        """A piece of text with its log probabilities."""
        if isinstance(event.delta, str):
            self._item(event).texts += 1
            self._has_text = self._has_text or bool(event.delta)
            logprobs = as_list(event.logprobs)
            events.append(TextDelta(event.delta, logprobs={"content": logprobs}))

    def _text_done(self, event: _Event, events: list[ModelEvent]) -> None:
        item = self._item(event)
        if not item.texts and isinstance(event.text, str) and event.text:
            item.texts += 1
            self._has_text = True
            events.append(TextDelta(event.text))

    def _part_done(self, event: _Event, events: list[ModelEvent]) -> None:
        part = as_object(event.part) or {}
        if annotations := as_list(part.get("annotations")):
            events.append(TextDelta("", extra={PROVIDER: {"annotations": annotations}}))

    def _refused(self, event: _Event, events: list[ModelEvent]) -> None:
        if isinstance(event.delta, str):
            self._item(event).texts += 1
            self._refusal.append(event.delta)

    def _thought(self, event: _Event, events: list[ModelEvent]) -> None:
        if isinstance(event.delta, str) and event.delta:
            item = self._item(event)
            if not item.summaries:
                item.summaries = 1
            item.texts += 1
            events.append(ThoughtDelta(event.delta))

    def _summary_added(self, event: _Event, events: list[ModelEvent]) -> None:
        item = self._item(event)
        if item.summaries:
            events.append(ThoughtDelta("\n\n"))
        item.summaries += 1

    def _item_added(self, event: _Event, events: list[ModelEvent]) -> None:
        fields = _fields(event.item)
        item = self._begun(event, fields)
        if fields.get("type") in _CALLS:
            self._start_call(item, fields, events)
        elif fields.get("type") == "message":
            _start_message(fields, events)

    def _begun(self, event: _Event, fields: JsonObject) -> _Item:
        if event.item_id is None:
            event.item_id = as_text(fields.get("id"))
        return self._item(event)

    def _start_call(self, item: _Item, fields: JsonObject, events: list[ModelEvent]) -> None:
        if item.call is not None:
            return
        call_id = as_text(fields.get("call_id")) or as_text(fields.get("id")) or new_call_id()
        item.call = {**fields, "call_id": call_id}
        item.index = self._calls
        self._calls += 1
        events.append(ToolCallStarted(item.index, call_id, as_text(fields.get("name")) or ""))

    def _arguments(self, event: _Event, events: list[ModelEvent]) -> None:
        item = self._item(event)
        if item.call is None or item.ended or not isinstance(event.delta, str) or not event.delta:
            return
        item.pieces.append(event.delta)
        if item.call.get("type") == "function_call":
            events.append(ToolCallDelta(item.index, event.delta))

    def _item_done(self, event: _Event, events: list[ModelEvent]) -> None:
        fields = _fields(event.item)
        self._complete(self._begun(event, fields), fields, events)

    def _complete(self, item: _Item, fields: JsonObject, events: list[ModelEvent]) -> None:
        """Adds what is still missing of an item."""
        if item.ended:
            return
        item.ended = True
        match fields.get("type"):
            case "message":
                self._complete_message(item, fields, events)
            case "reasoning":
                if not item.texts and (text := reasoning_text(fields)):
                    events.append(ThoughtDelta(text))
                events.append(ThoughtDelta("", extra={PROVIDER: fields}))
            case "function_call" | "custom_tool_call":
                self._start_call(item, fields, events)
                self._end_call(item, fields, events)
            case _:
                events.append(PartReceived(Opaque(PROVIDER, fields)))

    def _complete_message(self, item: _Item, fields: JsonObject, events: list[ModelEvent]) -> None:
        if item.texts:
            return
        for value in as_list(fields.get("content")) or ():
            match as_object(value):
                case {"type": "refusal", "refusal": str(text)}:
                    self._refusal.append(text)
                case {"type": "output_text", "text": str(text), **others}:
                    self._has_text = self._has_text or bool(text)
                    logprobs = as_list(others.get("logprobs"))
                    if text:
                        events.append(
                            TextDelta(text, logprobs={"content": logprobs} if logprobs else None)
                        )
                    if annotations := as_list(others.get("annotations")):
                        events.append(TextDelta("", extra={PROVIDER: {"annotations": annotations}}))
                case _:
                    pass

    def _end_call(self, item: _Item, fields: JsonObject, events: list[ModelEvent]) -> None:
        assert item.call is not None
        name = as_text(fields.get("name")) or as_text(item.call.get("name")) or ""
        unknown = rest(
            fields, "type", "id", "call_id", "name", "arguments", "input", "status", "caller"
        )
        if fields.get("type") == "custom_tool_call":
            json = compact_json({"input": as_text(fields.get("input")) or "".join(item.pieces)})
            events.append(ToolCallDelta(item.index, json))
            unknown["type"] = "custom_tool_call"
        else:
            json = as_text(fields.get("arguments")) or "".join(item.pieces)
            if json and not item.pieces:
                events.append(ToolCallDelta(item.index, json))
        extra: JsonObject = {PROVIDER: unknown} if unknown else {}
        call_id: str = item.call["call_id"]
        events.append(ToolCallEnded(item.index, FunctionCall(name, json, call_id, extra=extra)))

    def _ended(self, event: _Event, events: list[ModelEvent]) -> None:
        self._end(_fields(event.response), events, event.type.rpartition(".")[2])
        self.done = True

    def _end(self, response: JsonObject, events: list[ModelEvent], status: str = "") -> None:
        status = as_text(response.get("status")) or status or "completed"
        self._usage = as_object(response.get("usage"))
        if status in _FAILED:
            error = as_object(response.get("error")) or {"message": f"the response was {status}"}
            raise problem_in(error, self._secrets)
        for index, value in enumerate(as_list(response.get("output")) or ()):
            fields = as_object(value) or {}
            item = self._item(_Event(output_index=index, item_id=as_text(fields.get("id"))))
            if fields.get("type") == "message" and not item.ended and not item.texts:
                _start_message(fields, events)
            self._complete(item, fields, events)
        for item in {id(item): item for item in self._items.values()}.values():
            if item.call is not None and not item.ended:  # the stream had no end of the call
                self._complete(item, {**item.call, "arguments": "".join(item.pieces)}, events)
        self._status = status
        details = as_object(response.get("incomplete_details")) or {}
        self._why = as_text(details.get("reason")) or ""
        self._id = as_text(response.get("id"))
        if tier := as_text(response.get("service_tier")):
            self._about = {"service_tier": tier}

    def _failed(self, event: _Event, events: list[ModelEvent]) -> None:
        """An error within the stream: OpenAI sends its fields flat, Open Responses nests them."""
        nested = as_object(event.error)
        raise problem_in(nested or {"message": event.message, "code": event.code}, self._secrets)

    # On the class: a table of bound methods would be a reference cycle.
    _DECODERS: ClassVar[dict[str, Callable[..., None]]] = {
        "response.output_text.delta": _text,
        "response.output_text.done": _text_done,
        "response.content_part.done": _part_done,
        "response.refusal.delta": _refused,
        "response.reasoning_summary_part.added": _summary_added,
        "response.reasoning_summary_text.delta": _thought,
        "response.reasoning_text.delta": _thought,
        "response.reasoning.delta": _thought,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.function_call_arguments.delta": _arguments,
        "response.custom_tool_call_input.delta": _arguments,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _ended,
        "response.cancelled": _ended,
        "error": _failed,
    }


def _start_message(fields: JsonObject, events: list[ModelEvent]) -> None:
    """A message with a `phase` starts with an empty text that carries it."""
    if phase := as_text(fields.get("phase")):
        events.append(TextDelta("", extra={PROVIDER: {"phase": phase}}))


def _fields(raw: Raw) -> JsonObject:
    data = bytes(raw)
    if data in (b"", b"null"):
        return {}
    return as_object(_large(data) if len(data) > LARGE else _decode_object(data)) or {}


def _large(data: bytes) -> Any:
    return outline(data, max_depth=MAX_DEPTH, max_values=MAX_VALUES).value()


def _decode_large(payload: bytes) -> _Event:
    """A large event. Its raw values are decoded in steps later."""
    try:
        fields = outline(payload, max_depth=MAX_DEPTH, max_values=MAX_VALUES).fields() or {}
        known = {name: node for name, node in fields.items() if name in _Event.__struct_fields__}
        values: dict[str, Any] = {
            name: Raw(node.raw) if name in ("item", "response") else node.value()
            for name, node in known.items()
        }
        return _Event(**values)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None


def _repaired(payload: bytes) -> _Event:
    try:
        fields = as_object(decode_json(payload)) or {}
        for name in ("item", "response"):
            if name in fields:
                fields[name] = Raw(msgspec.json.encode(fields[name]))
        return msgspec.convert(fields, _Event)
    except (ValueError, msgspec.ValidationError) as error:
        raise StreamCut("the model's answer cannot be read") from error


def usage_from(fields: JsonObject) -> Usage:
    """The server's token counts; a missing total is computed."""
    given, output = whole(fields.get("input_tokens")), whole(fields.get("output_tokens"))
    cached = (as_object(fields.get("input_tokens_details")) or {}).get("cached_tokens")
    thought = (as_object(fields.get("output_tokens_details")) or {}).get("reasoning_tokens")
    total = whole(fields.get("total_tokens")) or given + output
    return Usage(given, output, total, whole(cached), whole(thought))
