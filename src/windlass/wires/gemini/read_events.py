"""Decodes Gemini's responses, streamed or in one body, to model events. Pure."""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from windlass.content import FunctionCall, PrivateText, Text, Thought, Usage, new_call_id
from windlass.errors import ConfigError, ModelError, StreamCut
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
from windlass.jsontext import compact_json, decode_json
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest, whole
from windlass.wires.gemini.messages import PROVIDER, decode_part
from windlass.wires.upstream_errors import problem_in, redacted

Path: TypeAlias = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.?([^.\[\]'"]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
MAX_LIST_GAP = 1000


def path_steps(path: str) -> Path:
    """The steps of a JSON path such as `$.guests[0].name`. Raises `StreamCut` for anything else."""
    steps: list[str | int] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise StreamCut(f"the model's stream has an argument with the invalid path {path!r}")
        name, index, *quoted = step.groups()
        text = next(filter(None, quoted), "")
        steps.append(int(index) if index is not None else name or re.sub(r"\\(.)", r"\1", text))
        position = step.end()
    return tuple(steps)


class StreamedArguments:
    """Collects streamed arguments. Strings arrive in pieces; other values are complete."""

    def __init__(self) -> None:
        self._values: dict[Path, Any] = {}
        self._texts: dict[Path, list[str]] = {}

    def add(self, piece: JsonObject) -> None:
        path = path_steps(as_text(piece.get("jsonPath")) or "")
        text = as_text(piece.get("stringValue"))
        if text is not None:
            pieces = self._texts.setdefault(path, [])
            pieces.append(text)
            self._values[path] = pieces
            return
        for kind in ("numberValue", "boolValue"):
            if piece.get(kind) is not None:
                value = piece[kind]
                whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
                self._values[path] = int(value) if whole else value
                return
        if "nullValue" in piece:
            self._values[path] = None
        elif path and path not in self._values:
            self._texts[path] = self._values[path] = []  # a string whose pieces follow

    def json(self) -> str:
        root: JsonObject = {}
        for path, value in self._values.items():
            if path:
                _put(root, path, "".join(value) if path in self._texts else value)
        return compact_json(root)


def _put(root: JsonObject, path: Path, value: Any) -> None:
    place: Any = root
    for step, following in zip(path, (*path[1:], None), strict=True):
        default: Any = value if following is None else ([] if isinstance(following, int) else {})
        place = _child(place, step, default, replace=following is None)


def _child(place: Any, step: str | int, default: Any, *, replace: bool) -> Any:
    fields = as_object(place)
    if isinstance(step, str) and fields is not None:
        if replace or step not in fields:
            fields[step] = default
        return fields[step]
    items = as_list(place)
    if isinstance(step, int) and items is not None and step < len(items) + MAX_LIST_GAP:
        items += [None] * (step + 1 - len(items))
        if replace or items[step] is None:
            items[step] = default
        return items[step]
    raise StreamCut("the model's stream has arguments that contradict each other")


CANDIDATE = "gemini_candidate"
"""The key in a message's `extra` for the service's metadata (sources, citations)."""

FINISH: dict[str, FinishReason] = {
    "FINISH_REASON_UNSPECIFIED": "other",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "other",
    "OTHER": "other",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "TOO_MANY_TOOL_CALLS": "other",
    "MALFORMED_RESPONSE": "other",
    "CONTINUATION": "length",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_OTHER": "other",
    "NO_IMAGE": "other",
}


class _Content(Struct):
    parts: list[JsonObject] | None = None


class _Candidate(Struct, rename="camel"):
    index: int | None = 0
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: JsonObject | None = None
    citation_metadata: JsonObject | None = None
    url_context_metadata: JsonObject | None = None
    logprobs_result: JsonObject | None = None


class _GenerateChunk(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    usage_metadata: Raw = Raw()  # msgspec does not support a union with Raw
    prompt_feedback: JsonObject | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_GenerateChunk).decode


class _StreamedCall:
    """A call with streamed arguments (Vertex)."""

    __slots__ = ("arguments", "head", "index")

    def __init__(self, index: int, head: FunctionCall) -> None:
        self.index, self.head = index, head
        self.arguments = StreamedArguments()


class AnswerDecoder:
    """Decodes streamed chunks or one body; `finish` returns how the turn ended."""

    done = False
    """This wire has no end marker."""

    __slots__ = (
        "_answered",
        "_blocked",
        "_calls",
        "_finish",
        "_finish_message",
        "_logprobs",
        "_metadata",
        "_open",
        "_secrets",
        "_usage",
        "_whole_body",
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = secrets
        self._finish: str | None = None
        self._finish_message: str | None = None
        self._blocked: JsonObject | None = None
        self._usage: Raw | None = None
        self._calls = 0
        self._open: _StreamedCall | None = None
        self._metadata: JsonObject = {}
        self._logprobs: list[JsonObject] = []
        """Log probabilities that arrived without their text."""
        self._answered = self._whole_body = False

    @property
    def finished(self) -> bool:
        return self._finish is not None or self._blocked is not None

    @property
    def usage(self) -> Usage:
        """The tokens that the service has reported so far."""
        if self._usage is None:
            return Usage()
        return usage_from(as_object(decode_json(bytes(self._usage))) or {})

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one chunk. Raises `ModelError` for an error or invalid JSON."""
        try:
            chunk = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not payload:
                return []
            chunk = self._decode_leniently(payload)
        return self._chunk(chunk)

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a body: one response, or a list of chunks. Raises `ModelError`."""
        self._whole_body = True
        start = body.lstrip()[:1]
        if start == b"[":
            items = as_list(self._value(body)) or ()
            return [event for item in items for event in self.feed(msgspec.json.encode(item))]
        if start == b"<":
            shown = redacted(body[:200].decode("utf-8", "replace"), self._secrets)
            said = f"the response is a web page, not Gemini's; check base_url: {shown}"
            raise ModelError(PrivateText(said), public="{upstream} answered with a page")
        return self.feed(body)

    def finish(self) -> list[ModelEvent]:
        """The last events. Raises `StreamCut` for an incomplete stream."""
        if not self.finished and not self._whole_body:
            raise StreamCut
        events = self._end_call()
        extra = {CANDIDATE: self._metadata} if self._metadata else None
        finish, detail = self._finish_reason()
        rest = joined_logprobs(self._logprobs)
        return [*events, TurnEnded(finish, self.usage, detail, extra, logprobs=rest)]

    def _finish_reason(self) -> tuple[FinishReason, str | None]:
        if self._finish is None and self._blocked is not None:
            reasons = (self._blocked.get(key) for key in ("blockReasonMessage", "blockReason"))
            return "content_filter", next(filter(None, map(as_text, reasons)), None)
        if not self._answered:
            return "other", "the model gave no answer"
        finish = FINISH.get(self._finish or "STOP", "other")
        if finish == "stop":
            return ("tool_calls" if self._calls else "stop"), None
        return finish, self._finish_message or self._finish

    def _chunk(self, chunk: _GenerateChunk) -> list[ModelEvent]:
        if chunk.error:
            raise problem_in(chunk.error, self._secrets)
        if chunk.usage_metadata:
            self._usage = chunk.usage_metadata  # running totals, so the last one is the result
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.get("blockReason"):
            self._blocked = chunk.prompt_feedback
        events: list[ModelEvent] = []
        for candidate in chunk.candidates or ():
            if not candidate.index:  # use only the first of several candidates
                self._candidate(candidate, events)
        return events

    def _candidate(self, candidate: _Candidate, events: list[ModelEvent]) -> None:
        self._answered = True
        for part in (candidate.content and candidate.content.parts) or ():
            text = part.get("text")
            if len(part) == 1 and type(text) is str:
                if text:
                    events.append(TextDelta(text))
            else:
                events += self._part(part)
        if candidate.logprobs_result and (logprobs := _logprobs(candidate.logprobs_result)):
            self._attach(logprobs, events)
        if candidate.finish_reason:
            self._finish = candidate.finish_reason
            self._finish_message = candidate.finish_message
        for key, value in (
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
        ):
            if value:
                self._metadata[key] = value

    def _attach(self, logprobs: JsonObject, events: list[ModelEvent]) -> None:
        for place in reversed(range(len(events))):
            event = events[place]
            if isinstance(event, TextDelta):
                events[place] = msgspec.structs.replace(event, logprobs=logprobs)
                return
        self._logprobs.append(logprobs)

    def _part(self, fields: JsonObject) -> list[ModelEvent]:
        call = as_object(fields.get("functionCall"))
        if call is not None and (
            self._open is not None or "partialArgs" in call or call.get("willContinue")
        ):
            return self._streamed_call(call, fields)
        try:
            part = decode_part(fields)
        except ConfigError as error:
            raise StreamCut(f"the model's answer cannot be read: {error}") from None
        match part:
            case Text(text="", signature=None, extra=extra) if not extra:
                return []
            case Text():
                return [TextDelta(part.text, part.signature, part.extra or None)]
            case Thought():
                return [ThoughtDelta(part.text, part.signature, part.extra or None)]
            case FunctionCall():
                index = self._next_index()
                return [
                    ToolCallStarted(index, part.id, part.name),
                    ToolCallDelta(index, part.json),
                    ToolCallEnded(index, part),
                ]
            case _:
                return [PartReceived(part)]

    def _streamed_call(self, call: JsonObject, fields: JsonObject) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        name = as_text(call.get("name"))
        if name or self._open is None:
            events += self._end_call()
            signature = as_text(fields.get("thoughtSignature"))
            extra = rest(fields, "functionCall", "thoughtSignature")
            call_id = as_text(call.get("id")) or new_call_id()
            head = FunctionCall(
                name or "", "", call_id, signature, extra={PROVIDER: extra} if extra else {}
            )
            self._open = _StreamedCall(self._next_index(), head)
            events.append(ToolCallStarted(self._open.index, head.id, head.name))
        for piece in as_list(call.get("partialArgs")) or ():
            self._open.arguments.add(as_object(piece) or {})
        if not call.get("willContinue"):
            events += self._end_call()
        return events

    def _end_call(self) -> list[ModelEvent]:
        if self._open is None:
            return []
        index, text = self._open.index, self._open.arguments.json()
        call = msgspec.structs.replace(self._open.head, json=text)
        self._open = None
        return [ToolCallDelta(index, text), ToolCallEnded(index, call)]

    def _next_index(self) -> int:
        self._calls += 1
        return self._calls - 1

    def _value(self, body: bytes) -> Any:
        try:
            return decode_json(body)
        except ValueError as error:
            raise StreamCut("the model's answer cannot be read") from error

    def _decode_leniently(self, payload: bytes) -> _GenerateChunk:
        value = self._value(payload)
        try:
            # Encoded again, because the usage stays raw JSON.
            return _decode(msgspec.json.encode(value))
        except msgspec.DecodeError as error:
            raise StreamCut("the model's answer cannot be read") from error


def _logprobs(result: JsonObject) -> JsonObject | None:
    """The service's `logprobsResult` in the format of events."""
    chosen = as_list(result.get("chosenCandidates")) or []
    tops = as_list(result.get("topCandidates")) or []
    content: list[JsonObject] = []
    for place, candidate in enumerate(chosen):
        top = as_object(tops[place]) if place < len(tops) else None
        others = as_list((top or {}).get("candidates")) or []
        content.append({**_token(candidate), "top_logprobs": [_token(each) for each in others]})
    return {"content": content} if content else None


def _token(candidate: object) -> JsonObject:
    fields = as_object(candidate) or {}
    token = as_text(fields.get("token")) or ""
    return {
        "token": token,
        "logprob": fields.get("logProbability", 0.0),  # the service omits a value of 0
        "bytes": list(token.encode("utf-8", "surrogatepass")),
    }


def usage_from(fields: JsonObject) -> Usage:
    """The usage. Thoughts count as output; prompts of the service's tools count as input."""
    taken = whole(fields.get("promptTokenCount")) + whole(fields.get("toolUsePromptTokenCount"))
    thoughts = whole(fields.get("thoughtsTokenCount"))
    given = whole(fields.get("candidatesTokenCount")) + thoughts
    return Usage(
        taken,
        given,
        whole(fields.get("totalTokenCount")) or taken + given,
        whole(fields.get("cachedContentTokenCount")),
        thoughts,
    )
