"""Encodes a run as a chat completion: as one body, or as chunks. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from windlass.content import AnyPart, FunctionCall, InlineData, Message, Opaque, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    PartReceived,
    RoundStarted,
    RunEvent,
    Status,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
    event_to_dict,
    joined_logprobs,
)
from windlass.jsontext import encode_any_json, encode_json
from windlass.reply import Reply, RoundRecord
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.chat.messages import encode_call, encode_media
from windlass.wires.encoding import gap_between, json_text
from windlass.wires.errors import Problem, error_body
from windlass.wires.fields import JsonObject, merged
from windlass.wires.text_frames import framed_texts

if TYPE_CHECKING:  # its imports are slow, and only the gateway's document needs them
    from windlass.wires.chat.types import TokenUsage

ChatFinishReason = Literal["stop", "tool_calls", "length", "content_filter", "function_call"]
FINISH_REASONS: dict[StopReason, ChatFinishReason] = {
    "answer": "stop",
    "calls": "tool_calls",
    "max_rounds": "stop",
    "budget": "length",
    "repetition": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "stopped": "stop",
}
"""Other stop reasons are errors."""

_STANDARD_FIELDS = frozenset({"reasoning_content", "reasoning", "role", "content", "tool_calls"})


_SERVICE_FIELDS = ("service_tier", "system_fingerprint")


class CompletionHead(Struct, frozen=True):
    """The common fields of all chunks of an answer."""

    id: str
    created: int
    model: str


class Form(Struct, frozen=True, omit_defaults=True):
    """The form of an answer, which depends on its request and the gateway's settings."""

    legacy_functions: bool = False
    """Whether a call is encoded as `function_call`."""
    all_text: bool = True
    """Whether it has the text of all rounds, or only of the last."""
    include_usage: bool = False
    """Whether a stream ends with its usage."""
    tool_events: bool = False
    """Whether a stream has the events of server tools, in chunks with the field `windlass`."""


DEFAULT_FORM = Form()


def completion(
    head: CompletionHead, reply: Reply, ids: CallIds, form: Form = DEFAULT_FORM
) -> bytes:
    """The whole answer as one JSON body."""
    return encode_any_json(completion_fields(head, reply, ids, form))


def completion_fields(
    head: CompletionHead, reply: Reply, ids: CallIds, form: Form = DEFAULT_FORM
) -> JsonObject:
    shown = shown_rounds(reply, form)
    fields: JsonObject = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [
            {
                "index": 0,
                "message": _message(reply, ids, form, shown),
                "logprobs": joined_logprobs(each.logprobs for each in shown if each.logprobs),
                "finish_reason": finish_reason(reply, form),
            }
        ],
        **service_fields(reply.rounds[-1].about if reply.rounds else {}),
    }
    if reply.usage != _NO_USAGE:
        fields["usage"] = usage_fields(reply.usage)
    return fields


_NO_USAGE = Usage()


def finish_reason(reply: Reply, form: Form) -> ChatFinishReason:
    if form.legacy_functions and reply.stop_reason == "calls":
        return "function_call"
    return FINISH_REASONS.get(reply.stop_reason, "stop")


def service_fields(about: JsonObject) -> JsonObject:
    """The upstream's fields about its answer that clients know."""
    return {name: about[name] for name in _SERVICE_FIELDS if name in about}


def shown_rounds(reply: Reply, form: Form) -> tuple[RoundRecord, ...]:
    """The rounds whose text is in the answer: the last, and earlier ones that have text."""
    *earlier, last = reply.rounds or (None,)
    if last is None:
        return ()
    return (*(each for each in earlier if form.all_text and each.message.text.strip()), last)


def joined_texts(texts: Iterable[str]) -> str:
    """Joins the texts of several rounds with separators."""
    joined = ""
    for text in texts:
        joined += (gap_between(joined, text) if text else "") + text
    return joined


def _message(reply: Reply, ids: CallIds, form: Form, shown: tuple[RoundRecord, ...]) -> JsonObject:
    last = reply.rounds[-1].message if reply.rounds else Message("assistant", ())
    # The last text comes from the reply: the run may have replaced an empty one.
    text = joined_texts([*(each.message.text for each in shown[:-1]), reply.text])
    content = text or ("" if not reply.pending else None)
    message: JsonObject = {"role": "assistant", "content": content, "refusal": None}
    if reply.pending and form.legacy_functions:
        message["function_call"] = encode_call(reply.pending[0])["function"]
    elif reply.pending:
        message["tool_calls"] = [call_fields(call, ids) for call in reply.pending]
    if thoughts := joined_texts(each.message.thoughts for each in reply.rounds):
        message["reasoning_content"] = thoughts
    rounds = reply.rounds if form.all_text else reply.rounds[-1:]
    if images := image_fields(part for each in rounds for part in each.message.parts):
        message["images"] = images
    return message | message_extra(last.extra)


def message_extra(extra: JsonObject) -> JsonObject:
    """Other fields of the provider's message, such as a refusal or citations."""
    fields: JsonObject = extra.get("openai", {})
    return {name: fields[name] for name in fields if name not in _STANDARD_FIELDS}


def call_fields(call: FunctionCall, ids: CallIds) -> JsonObject:
    return merged({**encode_call(call), "id": ids.outward(call.id)}, signature_fields(call))


def signature_fields(call: FunctionCall) -> JsonObject:
    """Gemini's thought signature, in the field that Google's own compatible server uses."""
    if call.signature is None:
        return {}
    return {"extra_content": {"google": {"thought_signature": call.signature}}}


def image_fields(parts: Iterable[AnyPart]) -> list[Any]:
    """Images that the model made, for `images`: this wire has no standard field for them."""
    images: list[Any] = []
    for part in parts:
        match part:
            case InlineData(mime_type=kind) if kind.startswith("image/"):
                images.append(encode_media(part))
            case Opaque(provider="openai", data={"type": "image_url"} as data):
                images.append(data)
            case _:
                pass
    return images


def usage_fields(usage: Usage) -> "TokenUsage":
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thought_tokens},
    }


HEARTBEAT = b": the run is active\n\n"
DONE = b"data: [DONE]\n\n"

_Table: TypeAlias = dict[type[Event], Callable[..., bytes]]
_TOOL_EVENTS: tuple[type[Event], ...] = (
    Status,
    ToolRunStarted,
    ToolRunProgress,
    ToolRunEnded,
    ApprovalRequested,
    ApprovalResolved,
)


def error_chunk(problem: Problem) -> bytes:
    """An error within a stream, in the form that clients raise."""
    return b"data: " + error_body(problem) + b"\n\n"


class ChunkEncoder:
    """Encodes one run for one client.

    The client sees the thoughts of every round, the text of every round or of the last (`form`),
    and the calls of client tools, with consecutive indexes. All chunks together equal the body of
    the same run. With `form.tool_events`, chunks with an empty delta show the events of server
    tools in the field `windlass`.
    """

    def __init__(
        self,
        head: CompletionHead,
        tools: Mapping[str, Tool],
        ids: CallIds,
        form: Form = DEFAULT_FORM,
    ) -> None:
        self._tools, self._ids, self._form = tools, ids, form
        self._encoders = self._WITH_TOOL_EVENTS if form.tool_events else self._ENCODERS
        self._prefix = (
            b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,'
            % (encode_json(head.id), head.created, encode_json(head.model))
        )
        self._tail = b',"usage":null}\n\n' if form.include_usage else b"}\n\n"
        self._about: JsonObject = {}
        self._set_head()
        self._waits = not form.all_text and any(tool.runnable for tool in tools.values())
        """Whether the text of a round waits until the round is known to be the last."""
        self._held: list[TextDelta | PartReceived | TurnEnded] = []
        """Delayed events: blank text, or all text of a round that may not be the last."""
        self._open = False
        """Whether text of this round is sent at once."""
        self._calling = False
        """Whether this turn has any calls."""
        self._text_end = self._thought_end = ""
        """The last character of the text so far, and of the thoughts."""
        self._new_text = self._new_thought = False
        """Whether the next piece is the first of its round."""
        self._shown: dict[int, int] = {}
        """Maps the index of each shown call of this turn to its index for the client."""
        self._calls = 0

    heartbeat = HEARTBEAT
    paused = False

    def begin(self) -> bytes:
        """The first chunk, with the role."""
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The chunks of these events; often none."""
        encoders = self._encoders
        chunks: list[bytes] = []
        texts: list[str] = []
        for event in events:
            if (
                type(event) is TextDelta
                and self._open
                and not self._new_text
                and event.text
                and event.logprobs is None
                and event.about is None
            ):  # the fast path, for nearly all events
                texts.append(event.text)
            elif (kind := type(event)) in encoders:
                if texts:
                    chunks.append(self._text_chunks(texts))
                    texts = []
                chunks.append(encoders[kind](self, event))
        if texts:
            chunks.append(self._text_chunks(texts))
        return b"".join(chunks)

    def end(self, reply: Reply | None) -> bytes:
        """The last chunks: the finish reason, the usage if requested, and `[DONE]`."""
        assert reply is not None
        pieces = [self._release()]
        extra = message_extra(reply.rounds[-1].message.extra) if reply.rounds else {}
        if extra:
            pieces.append(self._delta(extra))
        reason = encode_json(finish_reason(reply, self._form))
        pieces.append(self._before + b'{},"logprobs":null,"finish_reason":%s}]' % reason)
        pieces.append(self._tail)
        if self._form.include_usage:
            usage = encode_json(usage_fields(reply.usage))
            pieces.append(self._head + b'"choices":[],"usage":' + usage + b"}\n\n")
        return b"".join((*pieces, DONE))

    def fail(self, problem: Problem) -> bytes:
        """The last chunk of a run that failed."""
        return error_chunk(problem)

    def _set_head(self) -> None:
        service = encode_json(service_fields(self._about))[1:-1]
        self._head = self._prefix + (service + b"," if service else b"")
        self._before = self._head + b'"choices":[{"index":0,"delta":'
        self._after = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self._text_before = self._before + b'{"content":'
        self._text_after = b"}" + self._after

    def _describe(self, about: JsonObject) -> None:
        """Adds the service's fields about its answer to all later chunks."""
        if about != self._about:
            self._about = {**self._about, **about}
            self._set_head()

    def _delta(self, delta: JsonObject, logprobs: JsonObject | None = None) -> bytes:
        if logprobs is None:
            return self._before + encode_json(delta) + self._after
        after = b',"logprobs":%s,"finish_reason":null}]' % encode_json(logprobs)
        return self._before + encode_json(delta) + after + self._tail

    def _round_started(self, event: RoundStarted) -> bytes:
        self._shown = {}
        self._held = []
        self._open = self._calling = False
        self._new_text = self._new_thought = True
        return b""

    def _turn_ended(self, event: TurnEnded) -> bytes:
        if event.about is not None:
            self._describe(event.about)
        if event.logprobs is not None:
            self._held.append(event)
        # A turn without calls is the last one.
        return self._release() if self._open or (self._waits and not self._calling) else b""

    def _text_chunks(self, texts: Sequence[str]) -> bytes:
        """The chunks of texts that continue the text of their round."""
        self._text_end = texts[-1][-1]
        return framed_texts(texts, self._text_before, self._text_after)

    def _text(self, event: TextDelta) -> bytes:
        if event.about is not None:
            self._describe(event.about)
        if self._open:
            return self._text_chunk(event)
        self._held.append(event)
        return b"" if self._waits or not event.text.strip() else self._release()

    def _release(self) -> bytes:
        """The chunks of the delayed events, in order."""
        held, self._held, self._open = self._held, [], True
        return b"".join([self._released(event) for event in held])

    def _released(self, event: TextDelta | PartReceived | TurnEnded) -> bytes:
        match event:
            case TextDelta():
                return self._text_chunk(event)
            case PartReceived():
                return self._part_chunk(event)
            case TurnEnded():
                return self._delta({}, event.logprobs)

    def _text_chunk(self, event: TextDelta) -> bytes:
        text, gap = event.text, b""
        if not text:
            return b"" if event.logprobs is None else self._delta({"content": ""}, event.logprobs)
        if self._new_text:
            self._new_text = False
            between = gap_between(self._text_end, text)
            gap = self._delta({"content": between}) if between else b""
        self._text_end = text[-1]
        if event.logprobs is not None:
            return gap + self._delta({"content": text}, event.logprobs)
        return gap + self._text_before + json_text(text) + self._text_after

    def _thought(self, event: ThoughtDelta) -> bytes:
        if event.about is not None:
            self._describe(event.about)
        text = event.text
        if not text:
            return b""
        if self._new_thought:
            self._new_thought = False
            text = gap_between(self._thought_end, text) + text
        self._thought_end = text[-1]
        return self._delta({"reasoning_content": text})

    def _part(self, event: PartReceived) -> bytes:
        if self._waits and not self._open:
            self._held.append(event)
            return b""
        return self._part_chunk(event)

    def _part_chunk(self, event: PartReceived) -> bytes:
        images = image_fields([event.part])
        return self._delta({"images": images}) if images else b""

    def _call_started(self, event: ToolCallStarted) -> bytes:
        if event.about is not None:
            self._describe(event.about)
        self._calling = True
        tool = self._tools.get(event.name)
        if tool is None or tool.runnable or (self._form.legacy_functions and self._calls):
            return b""
        self._shown[event.index] = self._calls
        self._calls += 1
        return self._call(
            event.index,
            {
                "id": self._ids.outward(event.id),
                "type": "function",
                "function": {"name": event.name, "arguments": ""},
            },
        )

    def _call_delta(self, event: ToolCallDelta) -> bytes:
        if event.index not in self._shown or not event.json:
            return b""
        return self._call(event.index, {"function": {"arguments": event.json}})

    def _call_ended(self, event: ToolCallEnded) -> bytes:
        if event.index not in self._shown:
            return b""
        fields = signature_fields(event.call)
        if not event.call.json:  # this wire requires arguments
            fields["function"] = {"arguments": "{}"}
        return self._call(event.index, fields) if fields else b""

    def _call(self, index: int, fields: JsonObject) -> bytes:
        if self._form.legacy_functions:
            function = fields.get("function")
            return self._delta({"function_call": function}) if function else b""
        return self._delta({"tool_calls": [{"index": self._shown[index], **fields}]})

    def _tool_event(self, event: Event) -> bytes:
        shown = encode_json(event_to_dict(event))
        choice = b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}]'
        return self._head + choice + b',"windlass":' + shown + self._tail

    # On the class: a table of bound methods would be a reference cycle.
    _ENCODERS: ClassVar[_Table] = {
        RoundStarted: _round_started,
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        ToolCallDelta: _call_delta,
        ToolCallEnded: _call_ended,
        TurnEnded: _turn_ended,
    }
    _WITH_TOOL_EVENTS: ClassVar[_Table] = _ENCODERS | dict.fromkeys(_TOOL_EVENTS, _tool_event)
