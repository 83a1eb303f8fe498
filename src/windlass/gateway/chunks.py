"""A run's events as chat-completion chunks: what a streaming client reads. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

import msgspec

from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    PartReceived,
    RoundStarted,
    RunEvent,
    Status,
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
)
from windlass.gateway.answer import (
    USUAL_FORM,
    Form,
    Head,
    finish_reason,
    gap_between,
    image_fields,
    message_extra,
    service_fields,
    signature_fields,
    usage_fields,
)
from windlass.gateway.http.errors import Problem
from windlass.gateway.runs.hidden_turns import CallIds
from windlass.jsontext import encode_json
from windlass.loop.reply import Reply
from windlass.tool import Tool
from windlass.wires.fields import JsonObject

__all__ = ["HEARTBEAT", "ChunkEncoder", "error_chunk"]

HEARTBEAT = b": the run goes on\n\n"
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
    """An error in the middle of a stream, as clients raise it."""
    return b"data: " + problem.to_json() + b"\n\n"


def _json_text(text: str) -> bytes:
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return encode_json(text)


class ChunkEncoder:
    """Encodes one run for one client.

    The client sees thoughts of every round, text of every round or of the last one (`form`), and
    the calls of its own tools, numbered through. All of it together is what the same run would be
    as one body. What the gateway's tools do is shown only to a client that asks (`tool_events`),
    beside an empty delta, in the field `windlass`.
    """

    def __init__(
        self,
        head: Head,
        tools: Mapping[str, Tool],
        ids: CallIds,
        *,
        include_usage: bool = False,
        tool_events: bool = False,
        form: Form = USUAL_FORM,
    ) -> None:
        self._tools, self._ids, self._include_usage, self._form = tools, ids, include_usage, form
        self._encoders = self._WITH_TOOL_EVENTS if tool_events else self._ENCODERS
        self._prefix = (
            b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,'
            % (encode_json(head.id), head.created, encode_json(head.model))
        )
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._about: JsonObject = {}
        self._set_head()
        self._waits = not form.all_text and any(tool.runnable for tool in tools.values())
        """Whether a round's text waits until the round is known to be the last."""
        self._held: list[TextDelta | PartReceived | TurnEnded] = []
        """What waits: blank text for more, or all text of a round that may not be the last."""
        self._open = False
        """Whether text of this round is sent as it comes."""
        self._calling = False
        """Whether this turn has calls, whoever's they are."""
        self._text_end = self._thought_end = ""
        """How the text so far ends, and the thoughts."""
        self._new_text = self._new_thought = False
        """Whether the next piece is the first of its round."""
        self._shown: dict[int, int] = {}
        """The client's number of each call of this turn that it is shown."""
        self._calls = 0

    def begin(self) -> bytes:
        """The first chunk: who speaks."""
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The chunks of these events; often none."""
        encoders = self._encoders
        return b"".join(
            [encoders[kind](self, event) for event in events if (kind := type(event)) in encoders]
        )

    def end(self, reply: Reply) -> bytes:
        """The last chunks: why it ended, what it cost if that was asked, and that it is over."""
        pieces = [self._release()]
        extra = message_extra(reply.rounds[-1].message.extra) if reply.rounds else {}
        if extra:
            pieces.append(self._delta(extra))
        reason = encode_json(finish_reason(reply, self._form))
        pieces.append(self._before + b'{},"logprobs":null,"finish_reason":%s}]' % reason)
        pieces.append(self._tail)
        if self._include_usage:
            usage = encode_json(usage_fields(reply.usage))
            pieces.append(self._head + b'"choices":[],"usage":' + usage + b"}\n\n")
        return b"".join((*pieces, DONE))

    def _set_head(self) -> None:
        service = encode_json(service_fields(self._about))[1:-1]
        self._head = self._prefix + (service + b"," if service else b"")
        self._before = self._head + b'"choices":[{"index":0,"delta":'
        self._after = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self._text_before = self._before + b'{"content":'
        self._text_after = b"}" + self._after

    def _describe(self, about: JsonObject) -> None:
        """Every chunk from here on says what the service says of its answer."""
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
        # A turn without calls is the last: the answer.
        return self._release() if self._open or (self._waits and not self._calling) else b""

    def _text(self, event: TextDelta) -> bytes:
        text = event.text
        if (
            self._open
            and text
            and not self._new_text
            and event.logprobs is None
            and event.about is None
        ):  # nearly all of them
            self._text_end = text[-1]
            return self._text_before + _json_text(text) + self._text_after
        if event.about is not None:
            self._describe(event.about)
        if self._open:
            return self._text_chunk(event)
        self._held.append(event)
        return b"" if self._waits or not text.strip() else self._release()

    def _release(self) -> bytes:
        """The chunks of what was held back, all of it in order."""
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
        return gap + self._text_before + _json_text(text) + self._text_after

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
        if not event.call.json:  # a call without arguments still has some on this wire
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

    # Of the class: a table of an encoder's own methods would be a reference cycle.
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
