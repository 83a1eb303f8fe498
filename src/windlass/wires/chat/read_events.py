"""Decodes a chat completion, streamed or in one body, into model events. Pure."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

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
    joined_logprobs,
)
from windlass.jsontext import LARGE, decode_json, outline
from windlass.wires.chat.messages import PROVIDER, arguments_text, call_extra, google_signature
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, merged, rest, whole
from windlass.wires.upstream_errors import problem_in, redacted

_REPEATED = frozenset({"type", "id", "format", "index", "name"})
"""Fields of a streamed item that are repeated, not continued."""


class UnknownFields:
    """Collects unknown fields: appends to texts and lists, and replaces other values."""

    __slots__ = ("_items", "_texts", "_values")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._items: dict[str, list[Any]] = {}
        self._values: JsonObject = {}

    def add(self, fields: JsonObject, *, is_whole: bool) -> None:
        """`is_whole`: the fields come from a complete message, not from a delta."""
        if is_whole:
            self._values |= fields
            return
        for key, value in fields.items():
            if isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif (items := as_list(value)) is not None:
                self._items.setdefault(key, []).extend(items)
            elif (known := as_object(self._values.get(key))) and (more := as_object(value)):
                self._values[key] = _continued([known, more])
            else:
                self._values[key] = value

    def fields(self) -> JsonObject:
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        items = {key: _items_joined(items) for key, items in self._items.items()}
        return {**texts, **items, **self._values}


def _items_joined(items: list[Any]) -> list[Any]:
    """Streamed items with the same index and type are pieces of one (`reasoning_details`)."""
    groups: dict[tuple[Any, ...], list[JsonObject]] = {}
    for number, item in enumerate(items):
        fields = as_object(item)
        if fields is None:
            return items
        index = fields.get("index")
        key = (number,) if index is None else (str(index), str(fields.get("type")))
        groups.setdefault(key, []).append(fields)
    return [_continued(pieces) for pieces in groups.values()]


def _continued(pieces: list[JsonObject]) -> JsonObject:
    """Joins the pieces of an object, in linear time."""
    texts: dict[str, list[str]] = {}
    joined: JsonObject = {}
    for piece in pieces:
        for key, value in piece.items():
            if isinstance(value, str) and key not in _REPEATED:
                texts.setdefault(key, []).append(value)
                joined.setdefault(key, "")
            elif value is not None or key not in joined:
                joined[key] = value
    return joined | {key: "".join(values) for key, values in texts.items()}


class _Call:
    """A call that is being received."""

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
        """Whether the arguments are a complete object. Checks the last character first: cheap."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return self.whole().error is None


_Identity: TypeAlias = tuple[int | None, str | None, str]
"""The index, id and function name in a delta, as far as present."""


class CallAssembler:
    """Turns deltas into call events. A call ends when the next one starts or the turn ends.

    A correct server gives each call an `index`, and sends its id and name once. Real servers omit
    the index, use 0 for every call, repeat the id or name in each delta, or send whole calls.
    """

    __slots__ = ("_by_index", "_by_wire_id", "_calls", "_ids", "_open")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._open: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_wire_id: dict[str, _Call] = {}
        """The last call with each index, and with each id of the server."""
        self._ids: set[str] = set()

    def feed(self, entries: object, *, whole: bool) -> list[ModelEvent]:
        """The events of one `tool_calls` list. `whole`: each entry is a complete call."""
        events: list[ModelEvent] = []
        touched: set[int] = set()
        for entry in as_list(entries) or [entries]:
            fields = as_object(entry)
            if fields is None:
                continue
            identity = _identity(fields)
            call = None if whole else self._continued(identity, touched)
            if call is None:
                call = self._started(identity, events)
            touched.add(call.index)
            self._extended(call, fields, events)
            if whole:
                events.append(self._ended(call))
        return events

    def end(self) -> list[ModelEvent]:
        """The end events of all calls that have not ended."""
        open_calls, self._open = self._open, []
        return [self._ended(call) for call in open_calls if not call.ended]

    def _continued(self, identity: _Identity, touched: set[int]) -> _Call | None:
        """The call that this delta continues; None if it starts a new one."""
        wire_index, wire_id, name = identity
        candidates: Iterable[_Call] = reversed(self._calls)
        if wire_index is not None:
            candidates = filter(None, (self._by_index.get(wire_index),))
        elif wire_id is not None and name:
            candidates = filter(None, (self._by_wire_id.get(wire_id),))
        for call in candidates:
            if wire_id is not None:
                # A new id at a known index is a new call; so is one with its own name.
                if call.wire_id == wire_id or (call.wire_id is None and not name):
                    return call
                if wire_index is not None:
                    return None
                continue
            return None if name and self._starts_new_call(call, name, touched) else call
        return None

    def _starts_new_call(self, call: _Call, name: str, touched: set[int]) -> bool:
        """Whether a name without an id starts a new call, rather than repeats the current name."""
        if call.ended or call.index in touched or call.is_complete():
            return True
        return bool(call.pieces) and name != call.name

    def _started(self, identity: _Identity, events: list[ModelEvent]) -> _Call:
        for open_call in self._open:
            if not open_call.ended and open_call.is_complete():
                events.append(self._ended(open_call))
        self._open = [each for each in self._open if not each.ended]
        call = _Call(len(self._calls), *identity)
        if call.id in self._ids:
            # Results are matched by id: two calls of one turn must not share one.
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
            # The name came in pieces, or late.
            call.name = name if name.startswith(call.name) else call.name + name
        if extra := call_extra(fields):
            call.extra = merged(call.extra, extra)
        if text := arguments_text(function.get("arguments")):
            call.pieces.append(text)
            events.append(ToolCallDelta(call.index, text))

    def _ended(self, call: _Call) -> ToolCallEnded:
        call.ended = True
        return ToolCallEnded(call.index, call.whole())


def _identity(fields: JsonObject) -> _Identity:
    index, function = fields.get("index"), as_object(fields.get("function")) or {}
    return (
        index if isinstance(index, int) else None,
        as_text(fields.get("id")) or None,
        as_text(function.get("name")) or "",
    )


FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    # Values of some compatible servers.
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "refusal": "content_filter",
}


class _Choice(Struct):
    index: int | None = 0
    delta: JsonObject | None = None
    message: JsonObject | None = None
    finish_reason: str | None = None
    logprobs: Any = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: JsonObject | None = None
    system_fingerprint: Any = None
    service_tier: Any = None
    error: Any = None
    object: Any = None
    message: Any = None  # some servers send an error without an `error` object
    code: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
MAX_VALUES = 5_000_000
MAX_DEPTH = 500
"""Limits of a large answer, which is read in steps; the interpreter limits the others."""
_KNOWN = frozenset({"role", "content", "tool_calls", "function_call"})
_NO_USAGE = Usage()


class AnswerDecoder:
    """Decodes streamed chunks or one body; `finish` returns the final events."""

    __slots__ = (
        "_about",
        "_answered",
        "_calls",
        "_fingerprint",
        "_finish",
        "_has_content",
        "_logprobs",
        "_secrets",
        "_sent_about",
        "_tier",
        "_unknown",
        "_usage",
        "done",
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.done = False
        self._secrets = secrets
        self._finish: str | None = None
        self._usage: JsonObject | None = None
        self._calls: CallAssembler | None = None
        self._unknown: UnknownFields | None = None
        self._answered = self._has_content = False
        self._fingerprint = self._tier = None
        """The values of the previous chunk."""
        self._about: JsonObject = {}
        self._sent_about = self._about
        """The part of `_about` that events have contained so far."""
        self._logprobs: list[JsonObject] = []
        """Log probabilities that wait for their text."""

    @property
    def finished(self) -> bool:
        return self._finish is not None

    @property
    def usage(self) -> Usage:
        """The tokens that the service has reported so far."""
        return _NO_USAGE if self._usage is None else usage_from(self._usage)

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one chunk. Raises `ModelError` for an error or an unreadable chunk."""
        try:
            chunk = _decode(payload) if len(payload) <= LARGE else _decode_large(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if payload == b"[DONE]" or not payload:
                self.done = self.done or bool(payload)
                return []
            chunk = self._repaired(payload)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if chunk.system_fingerprint != self._fingerprint or chunk.service_tier != self._tier:
            self._describe(chunk)
        if chunk.error:
            raise problem_in(chunk.error, self._secrets)
        if not chunk.choices:
            if chunk.object == "error":
                raise problem_in({"message": chunk.message, "code": chunk.code}, self._secrets)
            return []
        choice = chunk.choices[0]
        delta = choice.delta
        if (
            delta is not None
            and len(delta) == 1
            and choice.finish_reason is None
            and choice.logprobs is None
            and self._sent_about is self._about
        ):
            text = delta.get("content")
            if type(text) is str and text and not choice.index:
                self._has_content = True
                return [TextDelta(text)]
        return self._described(
            [event for choice in chunk.choices for event in self._choice(choice)]
        )

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a whole body. Raises `ModelError` for an error or an unreadable body."""
        events = [] if body.lstrip()[:1] == b"<" else self.feed(body)
        if not self._answered and not self._has_content:
            shown = redacted(body[:200].decode("utf-8", "replace"), self._secrets)
            message = f"the answer is not a chat completion; check base_url: {shown}"
            public = "{upstream} did not answer with a chat completion"
            raise ModelError(PrivateText(message), public=public)
        self._finish = self._finish or ""
        return events

    def finish(self) -> list[ModelEvent]:
        """The last events. Raises `StreamCut` if the stream stopped before the turn ended."""
        if self._finish is None and not self.done:
            raise StreamCut
        usage = self.usage
        finish, detail = self._ending()
        events: list[ModelEvent] = [] if self._calls is None else self._calls.end()
        about = None if self._sent_about is self._about else self._about
        rest = joined_logprobs(self._logprobs)
        events.append(TurnEnded(finish, usage, detail, self._message_extra(), about, rest))
        return events

    def _describe(self, chunk: _Chunk) -> None:
        """Stores the fields about the whole answer; most services repeat them in every chunk."""
        self._fingerprint, self._tier = chunk.system_fingerprint, chunk.service_tier
        fields = {
            "system_fingerprint": chunk.system_fingerprint,
            "service_tier": chunk.service_tier,
        }
        about = {**self._about, **{name: value for name, value in fields.items() if value}}
        if about != self._about:
            self._about = about

    def _described(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """The events; the first one gets the fields about the answer that are not sent yet."""
        if self._sent_about is not self._about and events:
            first = events[0]
            if isinstance(first, TextDelta | ThoughtDelta | ToolCallStarted):
                self._sent_about = self._about
                events[0] = msgspec.structs.replace(first, about=self._about)
        return events

    def _ending(self) -> tuple[FinishReason, str | None]:
        reason = self._finish or ""
        finish = FINISH.get(reason, "other" if reason else "stop")
        if finish == "stop" or finish == "tool_calls":
            if self._calls is None and not self._has_content and self._unknown is not None:
                refusal = as_text(self._unknown.fields().get("refusal"))
                if refusal:
                    return "content_filter", refusal
            return ("stop" if self._calls is None else "tool_calls"), None
        return finish, reason

    def _message_extra(self) -> JsonObject | None:
        return None if self._unknown is None else {PROVIDER: self._unknown.fields()}

    def _choice(self, choice: _Choice) -> list[ModelEvent]:
        if choice.index:
            return []  # of several answers (`n`), only the first counts
        self._answered = True
        delta = choice.delta if choice.delta is not None else choice.message
        events: list[ModelEvent] = []
        if (logprobs := as_object(choice.logprobs)) and any(logprobs.values()):
            self._logprobs.append(logprobs)
        if delta:
            self._delta(delta, events, is_whole=choice.delta is None)
        if choice.finish_reason == "error":
            raise problem_in((delta or {}).get("error") or {"code": "server_error"}, self._secrets)
        if choice.finish_reason:
            self._finish = choice.finish_reason
            if self._calls is not None:
                events += self._calls.end()
        return events

    def _delta(self, delta: JsonObject, events: list[ModelEvent], *, is_whole: bool) -> None:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            events.append(ThoughtDelta(thought))
        if content := delta.get("content"):
            self._content(content, events)
        if calls := delta.get("tool_calls"):
            self._call(calls, events, is_whole)
        if legacy := delta.get("function_call"):
            self._call([{"function": legacy}], events, is_whole)
        if delta.keys() <= _KNOWN:
            return
        # Drop empty values such as `annotations: []`.
        unknown = {k: v for k, v in rest(delta, *_KNOWN).items() if v != [] and v != {}}
        if unknown:
            if self._unknown is None:
                self._unknown = UnknownFields()
            self._unknown.add(unknown, is_whole=is_whole)

    def _call(self, entries: object, events: list[ModelEvent], is_whole: bool) -> None:
        if self._calls is None:
            self._calls = CallAssembler()
        events += self._calls.feed(entries, whole=is_whole)

    def _content(self, content: object, events: list[ModelEvent]) -> None:
        """Decodes text, or a list of parts, which some servers send."""
        self._has_content = True
        if isinstance(content, str):
            events.append(TextDelta(content, logprobs=self._logprobs_of_text()))
            return
        for item in as_list(content) or [content]:
            match as_object(item):
                case {"type": "text", "text": str(text)}:
                    events.append(TextDelta(text))
                case {"type": "thinking", "thinking": thinking}:
                    inner = as_list(thinking) or [{"text": thinking}]
                    texts = (as_text((as_object(piece) or {}).get("text")) for piece in inner)
                    events.append(ThoughtDelta("".join(filter(None, texts))))
                case dict() as part:
                    events.append(PartReceived(Opaque(PROVIDER, part)))
                case _:
                    pass

    def _logprobs_of_text(self) -> JsonObject | None:
        logprobs = joined_logprobs(self._logprobs)
        self._logprobs = []
        return logprobs

    def _repaired(self, payload: bytes) -> _Chunk:
        try:
            return msgspec.convert(decode_json(payload), _Chunk)
        except (ValueError, msgspec.ValidationError) as error:
            raise StreamCut("the model's answer cannot be read") from error


def _decode_large(payload: bytes) -> _Chunk:
    try:
        value = outline(payload, max_depth=MAX_DEPTH, max_values=MAX_VALUES).value()
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return msgspec.convert(value, _Chunk)


def usage_from(fields: JsonObject) -> Usage:
    """The server's token counts; a missing total is computed."""
    prompt, output = whole(fields.get("prompt_tokens")), whole(fields.get("completion_tokens"))
    cached, thought = fields.get("prompt_cache_hit_tokens"), None
    if details := as_object(fields.get("prompt_tokens_details")):
        cached = details.get("cached_tokens") or cached
    if details := as_object(fields.get("completion_tokens_details")):
        thought = details.get("reasoning_tokens")
    total = whole(fields.get("total_tokens")) or prompt + output
    return Usage(prompt, output, total, whole(cached), whole(thought))
