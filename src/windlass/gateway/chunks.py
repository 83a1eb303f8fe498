"""A run's events as chat-completion chunks: what a streaming client reads. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

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
    event_to_dict,
)
from windlass.gateway.answer import (
    FINISH_REASONS,
    Head,
    image_fields,
    message_extra,
    signature_fields,
    usage_fields,
)
from windlass.gateway.problems import Problem
from windlass.gateway.turns import CallIds
from windlass.jsontext import encode_json
from windlass.loop.reply import Reply
from windlass.models.fields import JsonObject
from windlass.tool import Tool

__all__ = ["HEARTBEAT", "ChunkEncoder", "error_chunk"]

HEARTBEAT = b": the run goes on\n\n"
DONE = b"data: [DONE]\n\n"

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


class ChunkEncoder:
    """Encodes one run for one client.

    The client sees text and thoughts of every round, and the calls of its own tools, numbered
    through. What the gateway's tools do is shown only to a client that asks (`tool_events`), beside
    an empty delta, in the field `windlass`.
    """

    def __init__(
        self,
        head: Head,
        tools: Mapping[str, Tool],
        ids: CallIds,
        *,
        include_usage: bool = False,
        tool_events: bool = False,
    ) -> None:
        self._tools, self._ids, self._include_usage = tools, ids, include_usage
        self._head = b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,' % (
            encode_json(head.id),
            head.created,
            encode_json(head.model),
        )
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._before = self._head + b'"choices":[{"index":0,"delta":'
        self._after = b',"logprobs":null,"finish_reason":null}]' + self._tail
        self._text_before = self._before + b'{"content":'
        self._text_after = b"}" + self._after
        self._shown: dict[int, int] = {}
        """The client's number of each call of this turn that it is shown."""
        self._calls = 0
        self._encoders = self._WITH_TOOL_EVENTS if tool_events else self._ENCODERS

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
        extra = message_extra(reply.rounds[-1].message.extra) if reply.rounds else {}
        reason = FINISH_REASONS.get(reply.stop_reason, "stop")
        pieces = [self._delta(extra)] if extra else []
        pieces.append(
            self._before
            + b'{},"logprobs":null,"finish_reason":%s}]' % encode_json(reason)
            + self._tail
        )
        if self._include_usage:
            usage = encode_json(usage_fields(reply.usage))
            pieces.append(self._head + b'"choices":[],"usage":' + usage + b"}\n\n")
        return b"".join((*pieces, DONE))

    def _delta(self, delta: JsonObject) -> bytes:
        return self._before + encode_json(delta) + self._after

    def _round_started(self, event: RoundStarted) -> bytes:
        self._shown = {}
        return b""

    def _text(self, event: TextDelta) -> bytes:
        if not event.text:
            return b""
        try:
            text = msgspec.json.encode(event.text)
        except UnicodeEncodeError:
            text = encode_json(event.text)
        return self._text_before + text + self._text_after

    def _thought(self, event: ThoughtDelta) -> bytes:
        return self._delta({"reasoning_content": event.text}) if event.text else b""

    def _part(self, event: PartReceived) -> bytes:
        images = image_fields([event.part])
        return self._delta({"images": images}) if images else b""

    def _call_started(self, event: ToolCallStarted) -> bytes:
        tool = self._tools.get(event.name)
        if tool is None or tool.runnable:
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
        return self._delta({"tool_calls": [{"index": self._shown[index], **fields}]})

    def _tool_event(self, event: Event) -> bytes:
        shown = encode_json(event_to_dict(event))
        choice = b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}]'
        return self._head + choice + b',"windlass":' + shown + self._tail

    # By event, and not bound: a table of bound methods would be a reference cycle in each answer.
    _ENCODERS: ClassVar[dict[type[Event], Callable[["ChunkEncoder", Any], bytes]]] = {
        RoundStarted: _round_started,
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        ToolCallDelta: _call_delta,
        ToolCallEnded: _call_ended,
    }
    _WITH_TOOL_EVENTS = _ENCODERS | dict.fromkeys(_TOOL_EVENTS, _tool_event)
