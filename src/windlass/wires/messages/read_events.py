"""Decodes a message of Anthropic, streamed or in one body, into model events. Pure."""

from collections.abc import Iterable
from typing import Any

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
)
from windlass.jsontext import LARGE, compact_json, decode_json, outline
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest, whole
from windlass.wires.messages.messages import PROVIDER
from windlass.wires.upstream_errors import problem_in, redacted

PAUSED = "pause_turn"
"""The stop reason of a turn that continues when its content is sent back."""
STOP_SEQUENCE = "stop_sequence"
"""The key of `TurnEnded.about` with the stop sequence that ended the turn."""

MAX_VALUES = 5_000_000
MAX_DEPTH = 500
"""Limits of a large answer, which is read in steps; the interpreter limits the others."""

FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    PAUSED: "other",
}


class _Delta(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: JsonObject | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: JsonObject | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: JsonObject | None = None
    message: JsonObject | str | None = None
    usage: JsonObject | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class _Block:
    """A content block that is being received."""

    __slots__ = ("citations", "fields", "kind", "number", "pieces", "signature")

    def __init__(self, kind: str, fields: JsonObject) -> None:
        self.kind, self.fields = kind, fields
        self.number = 0
        """The number of the call."""
        self.pieces: list[str] = []
        """The JSON of its input."""
        self.signature = ""
        self.citations: list[JsonObject] = []

    def input(self) -> str:
        """The arguments as JSON text. Some servers send them at the start of the block."""
        if self.pieces:
            return "".join(self.pieces)
        return compact_json(as_object(self.fields.get("input")) or {})


class AnswerDecoder:
    """Decodes streamed events or one body; `finish` returns how the turn ended."""

    __slots__ = (
        "_answered",
        "_blocks",
        "_calls",
        "_detail",
        "_finish",
        "_last_kind",
        "_secrets",
        "_stop_sequence",
        "_usage",
        "done",
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.done = False
        self._secrets = secrets
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._last_kind = ""
        self._finish: str | None = None
        self._detail: str | None = None
        self._stop_sequence: str | None = None
        self._usage: JsonObject = {}
        self._answered = False

    @property
    def finished(self) -> bool:
        return self._finish is not None

    @property
    def usage(self) -> Usage:
        """The tokens that the service has reported so far."""
        return usage_from(self._usage)

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one payload. Raises `ModelError` for an error or an unreadable payload."""
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not payload:
                return []
            event = self._repaired(payload)
        delta = event.delta
        if delta is not None and delta.text and event.type == "content_block_delta":
            return [TextDelta(delta.text)]
        match event.type:
            case "content_block_delta":
                return [] if delta is None else self._continued(event.index, delta, payload)
            case "content_block_start":
                return self._started(event.index, event.content_block or {})
            case "content_block_stop":
                return self._stopped(self._blocks.pop(event.index, None))
            case "message_start":
                self._answered = True
                self._add_usage((as_object(event.message) or {}).get("usage"))
            case "message_delta":
                self._ended(delta or _Delta(), event.usage)
            case "message_stop":
                self.done = True
            case _ if event.error or event.type == "error":
                raise problem_in(event.error or {"message": event.message}, self._secrets)
            case _:
                pass  # `ping`, and events of later versions
        return []

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a whole message. Raises `ModelError` for an error or another body."""
        try:
            fields = as_object(_value(body)) or {}
        except ValueError as error:
            if body.lstrip()[:1] != b"<":
                raise StreamCut("the model's answer cannot be read") from error
            fields = {}
        if fields.get("type") == "error" or fields.get("error"):
            raise problem_in(fields.get("error"), self._secrets)
        blocks = as_list(fields.get("content"))
        if blocks is None:
            shown = redacted(body[:200].decode("utf-8", "replace"), self._secrets)
            message = f"the answer is not a message of Anthropic; check base_url: {shown}"
            public = "{upstream} did not answer with a message"
            raise ModelError(PrivateText(message), public=public)
        events: list[ModelEvent] = []
        for index, item in enumerate(blocks):
            events += self._whole(index, as_object(item) or {})
        ending = msgspec.convert(rest(fields, "type", "content"), _Delta, strict=False)
        self._ended(ending, as_object(fields.get("usage")))
        self._finish = self._finish or ""
        self.done = True
        return events

    def finish(self) -> list[ModelEvent]:
        """The last events. Raises `StreamCut` if the stream stopped before the turn ended."""
        if self._finish is None and not (self.done and self._answered):
            raise StreamCut
        events = [each for block in self._blocks.values() for each in self._stopped(block)]
        reason = self._finish or ""
        finish = FINISH.get(reason, "other" if reason else "stop")
        if finish in ("stop", "tool_calls"):
            finish = "tool_calls" if self._calls else "stop"
            detail = None
        else:
            detail = self._detail or reason
        about = None if self._stop_sequence is None else {STOP_SEQUENCE: self._stop_sequence}
        return [*events, TurnEnded(finish, self.usage, detail, about=about)]

    def _whole(self, index: int, block: JsonObject) -> list[ModelEvent]:
        """The events of a block that is complete at its start."""
        events = self._started(index, block)
        received = self._blocks.pop(index)
        if citations := as_list(block.get("citations")):
            received.citations = citations
        if signature := as_text(block.get("signature")):
            received.signature = signature
        return [*events, *self._stopped(received)]

    def _started(self, index: int, fields: JsonObject) -> list[ModelEvent]:
        kind = as_text(fields.get("type")) or ""
        block = self._blocks[index] = _Block(kind, fields)
        before, self._last_kind = self._last_kind, kind
        match kind:
            case "text":
                # Anthropic splits a text where citations begin and end: a mark keeps the split.
                split = [_closing_text({"type": "text"})] if before == "text" else []
                return [*split, *_texts(TextDelta, fields.get("text"))]
            case "thinking":
                return _texts(ThoughtDelta, fields.get("thinking"))
            case "tool_use":
                block.number = self._calls
                self._calls += 1
                fields["id"] = as_text(fields.get("id")) or new_call_id()
                name = as_text(fields.get("name")) or ""
                return [ToolCallStarted(block.number, fields["id"], name)]
            case _:
                return []

    def _continued(self, index: int, delta: _Delta, payload: bytes) -> list[ModelEvent]:
        block = self._blocks.get(index)
        if delta.thinking:
            return [ThoughtDelta(delta.thinking)]
        if block is None:
            return []
        if delta.partial_json is not None:
            if delta.partial_json:
                block.pieces.append(delta.partial_json)
            is_call = block.kind == "tool_use" and bool(delta.partial_json)
            return [ToolCallDelta(block.number, delta.partial_json)] if is_call else []
        if delta.signature is not None:
            block.signature += delta.signature
        elif delta.citation is not None:
            block.citations.append(delta.citation)
        elif delta.type not in ("text_delta", "thinking_delta"):
            _extend(block.fields, payload)
        return []

    def _stopped(self, block: _Block | None) -> list[ModelEvent]:
        if block is None:
            return []
        match block.kind:
            case "text":
                if not block.citations:
                    return []
                self._last_kind = "cited text"
                return [_closing_text({"citations": block.citations})]
            case "thinking":
                extra = {PROVIDER: {"signature": block.signature}}
                return [ThoughtDelta("", extra=extra)]
            case "tool_use":
                return self._call_ended(block)
            case _:
                if block.pieces:
                    block.fields["input"] = _object_in(block.input())
                return [PartReceived(Opaque(PROVIDER, block.fields))]

    def _call_ended(self, block: _Block) -> list[ModelEvent]:
        fields, text = block.fields, block.input()
        extra = rest(fields, "type", "id", "name", "input")
        if extra.get("caller") == {"type": "direct"}:
            del extra["caller"]  # the usual caller
        call = FunctionCall(
            as_text(fields.get("name")) or "",
            text,
            fields["id"],
            extra={PROVIDER: extra} if extra else {},
        )
        delta = [] if block.pieces else [ToolCallDelta(block.number, text)]
        return [*delta, ToolCallEnded(block.number, call)]

    def _ended(self, delta: _Delta, usage: JsonObject | None) -> None:
        self._add_usage(usage)
        if delta.stop_reason:
            self._finish = delta.stop_reason
            self._detail = as_text((delta.stop_details or {}).get("explanation"))
            self._stop_sequence = delta.stop_sequence

    def _add_usage(self, usage: object) -> None:
        """Later figures replace earlier ones: they are running totals."""
        if fields := as_object(usage):
            self._usage |= rest(fields)

    def _repaired(self, payload: bytes) -> _Event:
        try:
            value = decode_json(payload)
            return msgspec.convert(value, _Event)
        except (ValueError, msgspec.ValidationError) as error:
            raise StreamCut("the model's answer cannot be read") from error


def _value(body: bytes) -> Any:
    if len(body) <= LARGE:
        return decode_json(body)
    return outline(body, max_depth=MAX_DEPTH, max_values=MAX_VALUES).value()


def _texts(kind: type[TextDelta] | type[ThoughtDelta], value: object) -> list[ModelEvent]:
    text = as_text(value)
    return [kind(text)] if text else []


def _closing_text(fields: JsonObject) -> TextDelta:
    """Ends the text before it, and adds these fields to its block."""
    return TextDelta("", extra={PROVIDER: fields})


def _extend(fields: JsonObject, payload: bytes) -> None:
    """Adds a delta of an unknown kind to its block: texts continue, other values replace."""
    delta = as_object((as_object(decode_json(payload)) or {}).get("delta")) or {}
    for name, value in rest(delta, "type").items():
        before = fields.get(name)
        is_text = isinstance(before, str) and isinstance(value, str)
        fields[name] = f"{before}{value}" if is_text else value


def _object_in(text: str) -> Any:
    try:
        return decode_json(text.encode())
    except ValueError:
        return {}


def usage_from(fields: JsonObject) -> Usage:
    """The token counts. Anthropic's three input figures are disjoint; ours includes all."""
    cached = whole(fields.get("cache_read_input_tokens"))
    written = whole(fields.get("cache_creation_input_tokens"))
    taken = whole(fields.get("input_tokens")) + cached + written
    given = whole(fields.get("output_tokens"))
    details = as_object(fields.get("output_tokens_details")) or {}
    return Usage(taken, given, taken + given, cached, whole(details.get("thinking_tokens")))
