"""A chat completion as events: streamed or in one body, by one decoder. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from windlass.content import Opaque, PrivateText, Usage
from windlass.errors import ModelError, StreamCut
from windlass.events import (
    FinishReason,
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallStarted,
    TurnEnded,
    joined_logprobs,
)
from windlass.jsontext import decode_json
from windlass.jsontext.large import outline
from windlass.jsontext.offload import LARGE
from windlass.models.fields import JsonObject, as_list, as_object, as_text, rest, whole
from windlass.models.openai.calls import CallAssembler
from windlass.models.openai.media import PROVIDER
from windlass.models.openai.unknown import UnknownFields
from windlass.models.problem import problem_in, redacted

__all__ = ["FINISH", "AnswerDecoder", "usage_from"]

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    # What some compatible servers say instead.
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
    message: Any = None  # of an error that some servers write without its own object
    code: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
MAX_VALUES = 5_000_000
MAX_DEPTH = 500
"""Of an answer that is read in steps; the others end where the interpreter's stack does."""
_KNOWN = frozenset({"role", "content", "tool_calls", "function_call"})
_NO_USAGE = Usage()


class AnswerDecoder:
    """Feed it streamed chunks or one body; `finish` says how the turn ended."""

    __slots__ = (
        "_about",
        "_answered",
        "_calls",
        "_fingerprint",
        "_finish",
        "_logprobs",
        "_said",
        "_secrets",
        "_tier",
        "_told",
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
        self._answered = self._said = False
        self._fingerprint = self._tier = None
        """Of the chunk before."""
        self._about: JsonObject = {}
        self._told = self._about
        """What the events so far have said of the answer."""
        self._logprobs: list[JsonObject] = []
        """Those that wait for the text that they belong to."""

    @property
    def finished(self) -> bool:
        return self._finish is not None

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one chunk. Raises `ModelError` if it is an error or cannot be read."""
        try:
            chunk = _decode(payload) if len(payload) <= LARGE else _decode_large(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if payload == b"[DONE]" or not payload:
                self.done = self.done or bool(payload)
                return []
            chunk = self._mended(payload)
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
            and self._told is self._about
        ):
            text = delta.get("content")
            if type(text) is str and text and not choice.index:
                self._said = True
                return [TextDelta(text)]
        return self._described(
            [event for choice in chunk.choices for event in self._choice(choice)]
        )

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a whole body. Raises `ModelError` if it is an error or cannot be read."""
        events = [] if body.lstrip()[:1] == b"<" else self.feed(body)
        if not self._answered and not self._said:
            shown = redacted(body[:200].decode("utf-8", "replace"), self._secrets)
            said = f"the answer is not a chat completion; check base_url: {shown}"
            public = "{upstream} did not answer with a chat completion"
            raise ModelError(PrivateText(said), public=public)
        self._finish = self._finish or ""
        return events

    def finish(self) -> list[ModelEvent]:
        """The last events. Raises `StreamCut` if the turn never came to its end."""
        if self._finish is None and not self.done:
            raise StreamCut
        usage = _NO_USAGE if self._usage is None else usage_from(self._usage)
        finish, detail = self._ending()
        events: list[ModelEvent] = [] if self._calls is None else self._calls.end()
        about = None if self._told is self._about else self._about
        rest = joined_logprobs(self._logprobs)
        events.append(TurnEnded(finish, usage, detail, self._message_extra(), about, rest))
        return events

    def _describe(self, chunk: _Chunk) -> None:
        """Notes what the service says of its whole answer; most say it in every chunk."""
        self._fingerprint, self._tier = chunk.system_fingerprint, chunk.service_tier
        said = {
            "system_fingerprint": chunk.system_fingerprint,
            "service_tier": chunk.service_tier,
        }
        about = {**self._about, **{name: value for name, value in said.items() if value}}
        if about != self._about:
            self._about = about

    def _described(self, events: list[ModelEvent]) -> list[ModelEvent]:
        """The events, the first of them with what was not yet said of the answer."""
        if self._told is not self._about and events:
            first = events[0]
            if isinstance(first, TextDelta | ThoughtDelta | ToolCallStarted):
                self._told = self._about
                events[0] = msgspec.structs.replace(first, about=self._about)
        return events

    def _ending(self) -> tuple[FinishReason, str | None]:
        reason = self._finish or ""
        finish = FINISH.get(reason, "other" if reason else "stop")
        if finish == "stop" or finish == "tool_calls":
            if self._calls is None and not self._said and self._unknown is not None:
                refusal = as_text(self._unknown.fields().get("refusal"))
                if refusal:
                    return "content_filter", refusal
            return ("stop" if self._calls is None else "tool_calls"), None
        return finish, reason

    def _message_extra(self) -> JsonObject | None:
        return None if self._unknown is None else {PROVIDER: self._unknown.fields()}

    def _choice(self, choice: _Choice) -> list[ModelEvent]:
        if choice.index:
            return []  # one of several answers (`n`): only the first is the turn
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
        # An empty list (`annotations`) is not worth sending back.
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
        """Text, or a list of parts as some servers send."""
        self._said = True
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

    def _mended(self, payload: bytes) -> _Chunk:
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
    """Tokens as the server counted them; a total that it left out is the sum."""
    taken, given = whole(fields.get("prompt_tokens")), whole(fields.get("completion_tokens"))
    cached, thought = fields.get("prompt_cache_hit_tokens"), None
    if details := as_object(fields.get("prompt_tokens_details")):
        cached = details.get("cached_tokens") or cached
    if details := as_object(fields.get("completion_tokens_details")):
        thought = details.get("reasoning_tokens")
    total = whole(fields.get("total_tokens")) or taken + given
    return Usage(taken, given, total, whole(cached), whole(thought))
