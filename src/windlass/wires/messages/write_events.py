"""Encodes a run as a message of Anthropic: as one body, or as server-sent events. Pure.

Several rounds of a run are one message: the indexes of its blocks run on, and its usage is the sum.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Opaque,
    Usage,
)
from windlass.events import (
    Event,
    ModelEvent,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    StopReason,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.jsontext import decode_json, encode_any_json, encode_json
from windlass.reply import Reply
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.encoding import events_of, gap_between, json_text
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject, as_list, as_object, in_words, rest
from windlass.wires.messages.messages import OWN_CALL_PREFIX, OWN_SIGNATURE, PROVIDER
from windlass.wires.messages.read_events import STOP_SEQUENCE
from windlass.wires.text_frames import framed_texts
from windlass.wires.upstream_errors import CONTEXT_EXCEEDED, prompt_size

STOP_REASONS: dict[StopReason, str] = {
    "answer": "end_turn",
    "calls": "tool_use",
    "max_rounds": "end_turn",
    "budget": "end_turn",  # Claude Code continues after `max_tokens`, which costs more
    "repetition": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "stopped": "end_turn",
}
"""Other stop reasons are errors."""

SERVER_NAME = "windlass"
"""The name of the gateway's own server in `mcp_tool_use` blocks."""
NOT_RUN = "The tool did not run."

ShownThoughts: TypeAlias = Literal["full", "signature", "none"]
"""What a client sees of thoughts: all, only the signature (`display: omitted`), or nothing."""


class MessageHead(Struct, frozen=True):
    """The fields of a message that are known at its start."""

    id: str
    """`msg_...`"""
    model: str
    input_tokens: int = 0
    """An estimate, until the model reports its own count."""


class Form(Struct, frozen=True, omit_defaults=True):
    """The form of an answer, which depends on its request and the gateway's settings."""

    server_tools: bool = False
    """Whether the client sees the calls of server tools, as `mcp_tool_use` blocks."""
    thoughts: ShownThoughts = "full"
    all_text: bool = True
    """Whether it has the text of all rounds, or only of the last."""


DEFAULT_FORM = Form()


# One body.


def message(
    head: MessageHead,
    reply: Reply,
    tools: Mapping[str, Tool],
    ids: CallIds,
    form: Form = DEFAULT_FORM,
) -> bytes:
    """The whole answer as one JSON body."""
    return encode_any_json(message_fields(head, reply, tools, ids, form))


def message_fields(
    head: MessageHead,
    reply: Reply,
    tools: Mapping[str, Tool],
    ids: CallIds,
    form: Form = DEFAULT_FORM,
) -> JsonObject:
    writer = _BodyWriter()
    blocks = _BlockMachine(writer, tools, ids, head.id, form)
    for event in events_of(reply):
        blocks.add(event)
    blocks.end(reply)
    return {
        **_opening(head),
        "content": writer.content,
        **_ending(reply),
        "usage": usage_fields(reply.usage),
    }


def _opening(head: MessageHead) -> JsonObject:
    return {"id": head.id, "type": "message", "role": "assistant", "model": head.model}


def _ending(reply: Reply) -> JsonObject:
    reason = "tool_use" if reply.pending else STOP_REASONS.get(reply.stop_reason, "end_turn")
    about = reply.rounds[-1].about if reply.rounds else {}
    sequence = about.get(STOP_SEQUENCE)
    if reason == "end_turn" and sequence is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": sequence}
    return {"stop_reason": reason, "stop_sequence": None}


def usage_fields(usage: Usage) -> JsonObject:
    """The token counts. Anthropic's input tokens do not include the cached ones."""
    fields: JsonObject = {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.thought_tokens:
        fields["output_tokens_details"] = {"thinking_tokens": usage.thought_tokens}
    return fields


# Blocks, in the order that both forms have.


class _BodyWriter:
    """Builds the content of a body. The machine starts, continues and stops one block at a time."""

    def __init__(self) -> None:
        self.content: list[JsonObject] = []
        self._pieces: list[str] = []
        self._field = ""

    def start(self, block: JsonObject) -> None:
        self.content.append(block)
        self._pieces = []

    def delta(self, kind: str, text: str) -> None:
        if kind == "signature":
            self.content[-1]["signature"] = text
            return
        self._field = kind
        self._pieces.append(text)

    def cite(self, citation: JsonObject) -> None:
        self.content[-1].setdefault("citations", []).append(citation)

    def stop(self) -> None:
        text = "".join(self._pieces)
        if self._field == "partial_json" and self._pieces:
            self.content[-1]["input"] = _object_in(text)
        elif self._pieces:
            self.content[-1][self._field] = text
        self._pieces = []


def _object_in(text: str) -> JsonObject:
    """The arguments. Those of a truncated call are empty, because they are not JSON."""
    try:
        return as_object(decode_json(text.encode("utf-8", "replace"))) or {}
    except ValueError:
        return {}


class _StreamWriter:
    """Writes blocks as server-sent events; `taken` returns the bytes since the last call."""

    __slots__ = ("_after", "_before", "_index", "_out")

    def __init__(self) -> None:
        self._index = -1
        self._out: list[bytes] = []
        self._before: dict[str, bytes] = {}
        self._after = b"}}\n\n"

    def start(self, block: JsonObject) -> None:
        self._index += 1
        self._before = {}
        self._out.append(
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,'
            b'"content_block":%s}\n\n' % (self._index, encode_any_json(block))
        )

    def delta(self, kind: str, text: str) -> None:
        before = self._before.get(kind)
        if before is None:
            before = self._before[kind] = self.before(kind)
        self._out.append(before + json_text(text) + self._after)

    def cite(self, citation: JsonObject) -> None:
        self._out.append(
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"citations_delta","citation":%s}}\n\n'
            % (self._index, encode_any_json(citation))
        )

    def before(self, kind: str) -> bytes:
        """The bytes of a delta before its text."""
        name = _DELTA_TYPES[kind].encode()
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%s","%s":' % (self._index, name, kind.encode())
        )

    def stop(self) -> None:
        self._out.append(
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
            % self._index
        )

    def taken(self) -> bytes:
        out, self._out = self._out, []
        return b"".join(out)


_DELTA_TYPES = {
    "text": "text_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "partial_json": "input_json_delta",
}
_Open: TypeAlias = Literal["", "text", "thinking", "call"]


class _BlockMachine:
    """Turns the events of a run into blocks, one at a time.

    Text of several rounds continues in one block, unless other blocks are between. Events that
    arrive while a call is open wait for its end. The calls of server tools are blocks at the end of
    their turn, each with its whole input, and their results follow in the order of the calls.
    """

    def __init__(
        self,
        writer: "_BodyWriter | _StreamWriter",
        tools: Mapping[str, Tool],
        ids: CallIds,
        message_id: str,
        form: Form,
    ) -> None:
        self._writer, self._tools, self._ids, self._form = writer, tools, ids, form
        self._message_id = message_id
        self.open: _Open = ""
        """The kind of the block that is open."""
        self.new_text = True
        """Whether the next text is the first of its round or block."""
        self.text_end = ""
        """The last character of the open text block."""
        self._blank = ""
        """White space that waits for more text: Anthropic refuses blank blocks."""
        self._calling = -1
        """The number of the call whose block is open."""
        self._argued = False
        """Whether the open call has arguments."""
        self._waiting: list[ModelEvent] = []
        self._tools_off = False
        self._has_thought = False
        self._own_calls: list[FunctionCall] = []
        """The calls of server tools in this round."""
        self._unanswered: list[FunctionCall] = []
        """The server calls that have a block, but no result yet."""
        self._results: dict[str, FunctionResponse] = {}
        self._turn_over = False
        self._held: list[TextDelta | PartReceived] = []
        """Text of a round that may not be the last."""
        self.holds = not form.all_text and any(tool.runnable for tool in tools.values())
        """Whether the text of a round waits until the round is known to be the last."""
        self._has_calls = False
        self.shown_calls: set[str] = set()
        """The calls of client tools that the client has seen."""

    def add(self, event: RunEvent) -> None:
        handle = self._HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    def end(self, reply: Reply) -> None:
        """Closes the last block, and shows the client the calls that it has not seen yet."""
        self._release()
        self._close()
        self._finish_results()
        for call in self._unanswered:
            self._result(call, FunctionResponse(call.name, {"error": NOT_RUN}, call.id))
        self._unanswered = []
        for call in reply.pending:
            if call.id not in self.shown_calls:
                self._begin_call(call.id, call.name)
                self._writer.delta("partial_json", call.json or "{}")
                self._close()

    def _round_started(self, event: RoundStarted | RoundRestarted) -> None:
        self._tools_off = event.tools_off
        self.new_text = True
        self._turn_over = self._has_calls = False
        self._own_calls, self._held, self._waiting = [], [], []
        self._results = {}

    def _turn_ended(self, event: TurnEnded) -> None:
        if not self._has_calls:
            self._release()  # a turn without calls is the last one
        self._turn_over = True
        self._end_thinking()
        is_refused = self._tools_off or event.finish in ("content_filter", "malformed_call")
        if self._form.server_tools and not is_refused:
            for call in self._own_calls:
                self._server_call(call)
        self._own_calls = []
        self._finish_results()

    def _text(self, event: TextDelta) -> None:
        if self.open == "call":
            self._waiting.append(event)
        elif self.holds:
            self._held.append(event)
        else:
            self._say(event)

    def _say(self, event: TextDelta) -> None:
        self._write_text(event.text)
        fields: JsonObject = (event.extra or {}).get(PROVIDER, {})
        if fields and self.open == "text":  # they close the block
            for citation in as_list(fields.get("citations")) or ():
                self._writer.cite(citation)
            self._close()

    def _write_text(self, text: str) -> None:
        if not text:
            return
        if self.open != "text":
            self._blank += text
            if not self._blank.strip():
                return
            text, self._blank = self._blank, ""
            self._close()
            self._writer.start({"type": "text", "text": ""})
            self.open = "text"
        elif self.new_text:
            text = gap_between(self.text_end, text) + text
        self.new_text = False
        self.text_end = text[-1]
        self._writer.delta("text", text)

    def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            if isinstance(event, TextDelta):
                self._say(event)
            else:
                self._show_part(event.part)

    def _thought(self, event: ThoughtDelta) -> None:
        if self.open == "call":
            self._waiting.append(event)
            return
        shown = self._form.thoughts
        if shown == "none":
            return
        fields: JsonObject = (event.extra or {}).get(PROVIDER, {})
        signature = _signature(event, fields)
        if shown == "full" and event.text:
            self._begin_thinking()
            self._writer.delta("thinking", event.text)
        if signature is None:
            return
        if not event.text and self.open != "thinking" and not signature:
            return  # it closes thoughts that are not shown
        if shown == "signature" and signature in ("", OWN_SIGNATURE):
            return
        self._begin_thinking()
        self._writer.delta("signature", signature or OWN_SIGNATURE)
        self._writer.stop()
        self.open = ""

    def _begin_thinking(self) -> None:
        if self.open != "thinking":
            self._close()
            self._writer.start({"type": "thinking", "thinking": "", "signature": ""})
            self.open = "thinking"

    def _end_thinking(self) -> None:
        if self.open == "thinking":
            self._close()

    def _part(self, event: PartReceived) -> None:
        if self.open == "call":
            self._waiting.append(event)
        elif self.holds:
            self._held.append(event)
        else:
            self._show_part(event.part)

    def _show_part(self, part: AnyPart) -> None:
        match part:
            case Opaque(provider="anthropic", data=data):
                self._close()
                self._writer.start(data)
                self._writer.stop()
            case Opaque():
                self._say(TextDelta(in_words(part).text))
            case InlineData():
                self._say(TextDelta(f"[{part.mime_type}, {len(part.data)} bytes]"))
            case FileData():
                self._say(TextDelta(f"[{part.mime_type or 'file'}: {part.uri}]"))
            case _:
                pass

    def _call_started(self, event: ToolCallStarted) -> None:
        self._has_calls = True
        if self.open == "call":
            self._waiting.append(event)
            return
        tool = self._tools.get(event.name)
        if tool is None or tool.runnable or self._tools_off:
            return
        self._release()  # a call for the client ends the run: this round is the last
        self._begin_call(event.id, event.name)
        self._calling, self._argued = event.index, False

    def _begin_call(self, call_id: str, name: str) -> None:
        self._close()
        outward = self._ids.outward(call_id)
        self._writer.start({"type": "tool_use", "id": outward, "name": name, "input": {}})
        self.open = "call"
        self.shown_calls.add(call_id)

    def _call_delta(self, event: ToolCallDelta) -> None:
        if event.index == self._calling:
            if event.json:
                self._argued = True
                self._writer.delta("partial_json", event.json)
        elif self.open == "call":
            self._waiting.append(event)

    def _call_ended(self, event: ToolCallEnded) -> None:
        if event.index == self._calling:
            if not self._argued:
                self._writer.delta("partial_json", event.call.json or "{}")
            self._end_call()
        elif self.open == "call":
            self._waiting.append(event)
        else:
            tool = self._tools.get(event.call.name)
            if tool is None or tool.runnable:
                self._own_calls.append(event.call)

    def _end_call(self) -> None:
        self._writer.stop()
        self.open, self._calling = "", -1
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.add(event)

    def _run_ended(self, event: ToolRunEnded) -> None:
        if self._form.server_tools:
            self._results[event.response.id] = event.response
            if self._turn_over:
                self._finish_results()

    def _finish_results(self) -> None:
        """Shows results in call order, up to the first call without a result."""
        while self._unanswered and self._unanswered[0].id in self._results:
            call = self._unanswered.pop(0)
            self._result(call, self._results.pop(call.id))

    def _server_call(self, call: FunctionCall) -> None:
        self._close()
        # Claude Code discards a stream in which the input of such a block comes in deltas.
        self._writer.start(
            {
                "type": "mcp_tool_use",
                "id": self._own_id(call.id),
                "name": call.name,
                "server_name": SERVER_NAME,
                "input": _object_in(call.json),
            }
        )
        self._writer.stop()
        self._unanswered.append(call)

    def _result(self, call: FunctionCall, response: FunctionResponse) -> None:
        self._close()
        error = response.error
        text = response.text if error is None else error
        self._writer.start(
            {
                "type": "mcp_tool_result",
                "tool_use_id": self._own_id(call.id),
                "is_error": error is not None,
                "content": [{"type": "text", "text": text}],
            }
        )
        self._writer.stop()

    def _own_id(self, call_id: str) -> str:
        """The same id for the same call in every form of the answer."""
        digest = hashlib.sha256(f"{self._message_id} {call_id}".encode()).hexdigest()
        return f"{OWN_CALL_PREFIX}{digest[:24]}"

    def _close(self) -> None:
        if self.open == "thinking":
            self._writer.delta("signature", OWN_SIGNATURE)
        if self.open:
            self._writer.stop()
        self.open = ""
        self._calling = -1
        self._blank = ""

    # On the class: a table of bound methods would be a reference cycle.
    _HANDLERS: ClassVar[dict[type[Event], Callable[..., None]]] = {
        RoundStarted: _round_started,
        RoundRestarted: _round_started,
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        ToolCallDelta: _call_delta,
        ToolCallEnded: _call_ended,
        TurnEnded: _turn_ended,
        ToolRunEnded: _run_ended,
    }


def _signature(event: ThoughtDelta, fields: JsonObject) -> str | None:
    """The signature for the client; empty if the thought ends without one, None if it continues.

    The signature of a model other than Claude gets a mark, so that it never reaches Claude.
    """
    if event.signature is not None:
        return f"{OWN_SIGNATURE}{event.signature}"
    signature = fields.get("signature")
    return signature if isinstance(signature, str) else None


# The stream.

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
"""Keeps an idle stream open."""
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class MessageEncoder:
    """Encodes one run for one client. All events together equal the body of the same run."""

    def __init__(
        self,
        head: MessageHead,
        tools: Mapping[str, Tool],
        ids: CallIds,
        form: Form = DEFAULT_FORM,
    ) -> None:
        self._head = head
        self._writer = _StreamWriter()
        self._blocks = _BlockMachine(self._writer, tools, ids, head.id, form)
        self._text_before = b""
        """The bytes of a text delta before its text, for the open block."""

    def begin(self) -> bytes:
        """The first event."""
        opening: JsonObject = {
            **_opening(self._head),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_fields(Usage(self._head.input_tokens, 0)),
        }
        start = encode_json({"type": "message_start", "message": opening})
        return b"event: message_start\ndata: " + start + b"\n\n"

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The bytes of these events; often none."""
        blocks = self._blocks
        pieces: list[bytes] = []
        texts: list[str] = []
        for event in events:
            if (
                type(event) is TextDelta
                and blocks.open == "text"
                and not blocks.new_text
                and event.text
                and event.extra is None
            ):  # the fast path, for nearly all events
                texts.append(event.text)
                continue
            if texts:
                pieces.append(self._text_deltas(texts))
                texts = []
            blocks.add(event)
            pieces.append(self._writer.taken())
            if blocks.open == "text":
                self._text_before = self._writer.before("text")
        if texts:
            pieces.append(self._text_deltas(texts))
        return b"".join(pieces)

    def _text_deltas(self, texts: Sequence[str]) -> bytes:
        """The deltas of texts that continue the open block."""
        self._blocks.text_end = texts[-1][-1]
        return framed_texts(texts, self._text_before, b"}}\n\n")

    def end(self, reply: Reply) -> bytes:
        """The last events: the stop reason, the usage of the whole run, and `message_stop`."""
        self._blocks.end(reply)
        ending = _ending(reply)
        unfinished = self._blocks.shown_calls - {call.id for call in reply.pending}
        if unfinished and ending["stop_reason"] == "end_turn":
            # An interrupted turn has left a call that the client must not run.
            ending["stop_reason"] = "max_tokens"
        last = {"type": "message_delta", "delta": ending, "usage": usage_fields(reply.usage)}
        delta = b"event: message_delta\ndata: " + encode_json(last) + b"\n\n"
        return self._writer.taken() + delta + _STOP


# Errors.

ERROR_TYPES: dict[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
NO_THREADS = "thread_unsupported_request"
"""The code with which Anthropic's SDK repeats a request without `thread`."""
_PROMPT_TOO_LONG = "prompt is too long"
"""Claude Code compacts its conversation after an error with these words."""


def error_fields(problem: Problem, request_id: str | None = None) -> JsonObject:
    """An error in the form that Anthropic's clients read."""
    other = "invalid_request_error" if 400 <= problem.status < 500 else "api_error"
    text = _too_long(problem.message) if problem.code == CONTEXT_EXCEEDED else problem.message
    error: JsonObject = {"type": ERROR_TYPES.get(problem.status, other), "message": text}
    if problem.code == NO_THREADS:
        error["details"] = {"error_code": NO_THREADS, "unsupported": ["thread"]}
    return {"type": "error", "error": error, **rest({"request_id": request_id})}


def _too_long(message: str) -> str:
    """The message in the words of Anthropic, whose clients read both figures."""
    if size := prompt_size(message):
        return f"{_PROMPT_TOO_LONG}: {size.tokens} tokens > {size.maximum} maximum"
    return message if message.startswith(_PROMPT_TOO_LONG) else f"{_PROMPT_TOO_LONG}: {message}"


def error_body(problem: Problem, request_id: str | None = None) -> bytes:
    """The body of an error response."""
    return encode_json(error_fields(problem, request_id))


def error_event(problem: Problem, request_id: str | None = None) -> bytes:
    """An error within a stream, in the form that clients raise."""
    return b"event: error\ndata: " + error_body(problem, request_id) + b"\n\n"
