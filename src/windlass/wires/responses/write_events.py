"""Encodes a run as a response: as a stream of events, or as one body. Pure.

One response covers all rounds of the run. The encoder is deterministic: fed with the same log, it
writes the same bytes, so that a client can resume after any `sequence_number`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from windlass.content import (
    FunctionCall,
    FunctionResponse,
    InlineData,
    Opaque,
    Usage,
)
from windlass.events import (
    ApprovalRequested,
    Event,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    TurnEnded,
)
from windlass.jsontext import encode_any_json, encode_json, to_base64
from windlass.reply import Reply
from windlass.tool import Tool
from windlass.wires.call_ids import CallIds
from windlass.wires.encoding import json_text
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject, as_list, as_object, as_text
from windlass.wires.reply_events import events_of
from windlass.wires.responses.item_ids import approval_id, item_id
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.messages import OWN_SERVER, free_text, result_output
from windlass.wires.responses.read_request import ServerTools
from windlass.wires.responses.response import (
    END_EVENTS,
    ENDINGS,
    Ending,
    ResponseHead,
    ResponseWriter,
    Status,
    error_event_fields,
)
from windlass.wires.responses.tool_names import NO_NAMES, ToolNames

DONE = b"data: [DONE]\n\n"
_CUT_TURNS = ("length", "content_filter", "other")
"""Finish reasons after which the last item is incomplete."""


class ServerName(Struct, frozen=True):
    """The name of a server tool for the client."""

    server_label: str
    name: str


class ToolListing(Struct, frozen=True):
    """The tools of an MCP server of the request, for an `mcp_list_tools` item."""

    server_label: str
    tools: tuple[JsonObject, ...]
    """Each with `name`, `description`, `input_schema` and `annotations`."""


class OutputForm(Struct, frozen=True, kw_only=True):
    """The form of an answer, which depends on its request and the gateway's settings."""

    server_tools: ServerTools = "mcp_call"
    encrypted_reasoning: bool = False
    """Whether reasoning items contain the provider's encrypted reasoning."""
    all_text: bool = True
    """Whether it has the text of all rounds, or only of the last."""
    names: ToolNames = NO_NAMES
    """The client's names of its own tools."""
    servers: Mapping[str, ServerName] = {}
    """The names of server tools; others belong to the server `windlass`."""
    listings: tuple[ToolListing, ...] = ()


DEFAULT_FORM = OutputForm()
_Table: TypeAlias = dict[type[Event], Callable[..., None]]


def payloads(stream: bytes) -> list[bytes]:
    """The events in the encoder's bytes, each as one JSON text, for the frames of a WebSocket."""
    blocks = stream.split(b"\n\n")
    return [block.partition(b"\ndata: ")[2] for block in blocks if block.startswith(b"event: ")]


class _OpenText:
    """A message or a reasoning item that is being written."""

    __slots__ = ("annotations", "id", "index", "logprobs", "phase", "pieces")

    def __init__(self, item: str, index: int, phase: str | None = None) -> None:
        self.id, self.index, self.phase = item, index, phase
        self.pieces: list[str] = []
        self.annotations: list[Any] = []
        self.logprobs: list[Any] = []


class _OpenCall:
    """A call of the current round. Without a `kind` it is not shown yet, or never."""

    __slots__ = ("approval", "call", "ended", "id", "index", "kind", "number", "pieces")

    def __init__(self, number: int, call: FunctionCall) -> None:
        self.number, self.call = number, call
        self.kind = ""
        self.id, self.index = "", -1
        self.pieces = False
        self.ended = False
        self.approval: str | None = None


class ResponseEncoder:
    """Encodes one run for one client.

    `begin` returns the first events; `encode` those of the run's events; `end` the last. Events up
    to the sequence number `after` are left out: the rest is the same as without it.
    """

    def __init__(
        self,
        head: ResponseHead,
        tools: Mapping[str, Tool],
        ids: CallIds,
        form: OutputForm = DEFAULT_FORM,
        *,
        after: int = -1,
    ) -> None:
        self._head, self._tools, self._ids, self._form = head, tools, ids, form
        self._after = after
        self._writer = ResponseWriter(head)
        self._out: list[bytes] = []
        self._items: dict[int, bytes] = {}
        """The finished items of the output by their index."""
        self._number = self._index = 0
        self._message: _OpenText | None = None
        self._reasoning: _OpenText | None = None
        self._before_text = b""
        """The start of a delta of the open message."""
        self._blank = ""
        """Blank text that waits for more."""
        self._blank_thought = ""
        self._phase: str | None = None
        self._calls: dict[int, _OpenCall] = {}
        """The calls of this turn by their number."""
        self._waiting: dict[str, _OpenCall] = {}
        """The calls without a result, by their id."""
        self._results: dict[str, FunctionResponse] = {}
        """Results that are shown when the turn is over, in call order."""
        self._order: dict[str, None] = {}
        """The ids of the calls whose results are shown next, in call order."""
        self._round_start = 0
        """The index of the round's first item."""
        self._holds = not form.all_text and any(tool.runnable for tool in tools.values())
        self._held: list[TextDelta] = []
        """Text of a round that may not be the last."""
        self._usage = Usage()
        self._time = 0.0
        self._refused = False
        self._ended: RunEnded | None = None
        self._first = self._opening()
        """The first events. They are always the same."""

    @property
    def last_number(self) -> int:
        """The sequence number of the last event."""
        return self._number - 1

    def begin(self) -> bytes:
        """The first events: the response is created, and the tools of its servers are listed."""
        return self._first

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The events of the response for these events of the run; often none."""
        encoders, out, after = self._ENCODERS, self._out, self._after
        for event in events:
            if (
                type(event) is TextDelta
                and (message := self._message) is not None
                and (text := event.text)
                and event.extra is None
                and event.logprobs is None
            ):  # the fast path, for nearly all events
                message.pieces.append(text)
                number = self._number
                self._number = number + 1
                if number > after:
                    end = b',"sequence_number":%d}\n\n' % number
                    out.append(self._before_text + json_text(text) + end)
            elif (kind := type(event)) in encoders:
                encoders[kind](self, event)
        if len(out) == 1:
            return out.pop()
        return self._taken()

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Reads the events of earlier responses of the run: the calls that still wait."""
        for event in events:
            match event:
                case RoundStarted() | RoundRestarted():
                    self._waiting.clear()
                    self._order.clear()
                case ToolCallEnded(index=index, call=call):
                    opened = _OpenCall(index, call)
                    opened.ended = True
                    if self._is_server_call(opened):
                        self._waiting[call.id] = opened
                        if self._is_pair(opened):
                            self._order[call.id] = None
                case ApprovalRequested(call=call) if call.id in self._waiting:
                    self._waiting[call.id].approval = approval_id(self._head.id, call.id)
                case ToolRunEnded(response=response):
                    self._waiting.pop(response.id, None)
                    self._order.pop(response.id, None)
                case _:
                    pass

    def keep_alive(self) -> bytes:
        """Repeats `response.in_progress`: some clients ignore comments.

        It has the number of the last event, because it is not part of the log. It does not repeat
        the tools and instructions, which may be long.
        """
        short: JsonObject = {**self._head.echo, "instructions": None, "tools": []}
        now = ResponseWriter(replace(self._head, echo=short)).write("in_progress", b"")
        return (
            b'event: response.in_progress\ndata: {"type":"response.in_progress","response":%s,'
            b'"sequence_number":%d}\n\n' % (now, self.last_number)
        )

    def end(self, problem: Problem | None = None) -> bytes:
        """The last events and `[DONE]`. `problem` is why the run failed.

        Before the run's end, the response is complete with what it has: it waits for approvals.
        """
        self._close_round()
        ending = self._ending(problem)
        if ending.failure is not None:
            fields = encode_json(error_event_fields(ending.failure))
            self._event("error", fields[1:-1])
        self._event(END_EVENTS[ending.status], b'"response":' + self._response(ending))
        return self._taken() + DONE

    def response(self, status: Status | None = None, problem: Problem | None = None) -> bytes:
        """The response object as JSON. `status` is that of an active run."""
        if status in ("queued", "in_progress"):
            return self._writer.write(status, self._output())
        self._close_round()
        self._out.clear()
        return self._response(self._ending(problem))

    def output(self) -> list[JsonObject]:
        """The finished items so far, as JSON values."""
        return msgspec.json.decode(b"[" + self._output() + b"]")

    def _opening(self) -> bytes:
        is_shown = self._after < 1
        begun = b'"response":' + self._writer.write("in_progress", b"") if is_shown else b""
        self._event("response.created", begun)
        self._event("response.in_progress", begun)
        for listing in self._form.listings:
            self._list_tools(listing)
        return self._taken()

    def _list_tools(self, listing: ToolListing) -> None:
        index = self._next_index()
        item = item_id("mcp_list_tools", self._head.id, index)
        fields: JsonObject = {
            "id": item,
            "type": "mcp_list_tools",
            "server_label": listing.server_label,
        }
        self._added(index, {**fields, "tools": []})
        place = self._place(item, index)
        self._event("response.mcp_list_tools.in_progress", place)
        self._event("response.mcp_list_tools.completed", place)
        self._done(index, {**fields, "tools": listing.tools, "error": None})

    # Writing events.

    def _taken(self) -> bytes:
        taken = b"".join(self._out)
        self._out.clear()
        return taken

    def _event(self, kind: str, fields: bytes) -> None:
        """Adds one event; `fields` are its JSON fields without braces."""
        number = self._number
        self._number = number + 1
        if number > self._after:
            name = kind.encode()
            self._out.append(
                b'event: %s\ndata: {"type":"%s",%s,"sequence_number":%d}\n\n'
                % (name, name, fields, number)
            )

    def _place(self, item: str, index: int) -> bytes:
        return b'"item_id":%s,"output_index":%d' % (encode_json(item), index)

    def _next_index(self) -> int:
        index = self._index
        self._index = index + 1
        return index

    def _added(self, index: int, item: JsonObject) -> None:
        fields = b'"output_index":%d,"item":%s' % (index, encode_json(item))
        self._event("response.output_item.added", fields)

    def _done(self, index: int, item: JsonObject, *, dropped: bool = False) -> None:
        """Ends an item. A dropped one is not in the output of the response."""
        encoded = encode_any_json(item)
        self._event("response.output_item.done", b'"output_index":%d,"item":%s' % (index, encoded))
        if not dropped:
            self._items[index] = encoded

    def _output(self) -> bytes:
        return b",".join([self._items[index] for index in sorted(self._items)])

    def _ending(self, problem: Problem | None) -> Ending:
        if problem is not None:
            return Ending("failed", failure=problem)
        if self._ended is None:
            return Ending("completed")
        ending = ENDINGS[self._ended.reason]
        if ending.status == "failed":
            text = self._ended.error or f"The run ended: {self._ended.reason}."
            return Ending("failed", failure=Problem(500, text))
        if self._ended.reason == "content_filter" and self._refused:
            return Ending("completed")
        return ending

    def _response(self, ending: Ending) -> bytes:
        ended = self._ended
        usage = ended.usage if ended is not None and ended.usage != _NO_USAGE else self._usage
        at = int(ended.time if ended is not None else self._time) or self._head.created_at
        return self._writer.write(
            ending.status,
            self._output(),
            usage=usage,
            completed_at=at if ending.status == "completed" else None,
            ending=ending,
        )

    # Text.

    def _text(self, event: TextDelta) -> None:
        if self._holds:
            self._held.append(event)
        else:
            self._say(event)

    def _release(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._say(event)

    def _say(self, event: TextDelta) -> None:
        own: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if (phase := as_text(own.get("phase"))) is not None:
            self._close_message("completed")
            self._phase = phase
        if event.text:
            self._say_text(event)
        if (annotations := as_list(own.get("annotations"))) and self._message is not None:
            self._annotate(self._message, annotations)

    def _say_text(self, event: TextDelta) -> None:
        text = self._blank + event.text
        if self._message is None:
            if not text.strip():
                self._blank = text
                return
            self._blank = ""
            self._close_reasoning()
            self._open_message()
        message = self._message
        assert message is not None
        message.pieces.append(text)
        logprobs = _logprobs_of(event)
        message.logprobs += logprobs
        place = self._place(message.id, message.index)
        self._event(
            "response.output_text.delta",
            b'%s,"content_index":0,"logprobs":%s,"delta":%s'
            % (place, encode_json(logprobs), json_text(text)),
        )

    def _open_message(self) -> None:
        index = self._next_index()
        message = _OpenText(item_id("message", self._head.id, index), index, self._phase)
        self._message, self._phase = message, None
        self._added(index, {**_message_fields(message), "status": "in_progress", "content": []})
        place = self._place(message.id, index)
        part = b'"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}'
        where = b'%s,"content_index":0,' % place
        self._event("response.content_part.added", where + part)
        self._before_text = (
            b"event: response.output_text.delta\n"
            b'data: {"type":"response.output_text.delta",%s"logprobs":[],"delta":' % where
        )

    def _annotate(self, message: _OpenText, annotations: list[Any]) -> None:
        place = self._place(message.id, message.index)
        for annotation in annotations:
            number = len(message.annotations)
            message.annotations.append(annotation)
            self._event(
                "response.output_text.annotation.added",
                b'%s,"content_index":0,"annotation_index":%d,"annotation":%s'
                % (place, number, encode_json(annotation)),
            )

    def _close_message(self, status: str, *, dropped: bool = False) -> None:
        self._blank = ""
        message, self._message = self._message, None
        if message is None:
            return
        text = Raw(json_text("".join(message.pieces)))
        part: JsonObject = {
            "type": "output_text",
            "annotations": message.annotations,
            "logprobs": message.logprobs,
            "text": text,
        }
        place = self._place(message.id, message.index)
        self._event(
            "response.output_text.done",
            b'%s,"content_index":0,"logprobs":%s,"text":%s'
            % (place, encode_json(message.logprobs), bytes(text)),
        )
        encoded = Raw(encode_json(part))
        self._event(
            "response.content_part.done",
            b'%s,"content_index":0,"part":%s' % (place, bytes(encoded)),
        )
        item = {**_message_fields(message), "status": status, "content": [encoded]}
        self._done(message.index, item, dropped=dropped)

    def _refuse(self, refusal: str) -> None:
        """A message that consists of a refusal."""
        self._refused = True
        index = self._next_index()
        message = _OpenText(item_id("message", self._head.id, index), index)
        fields = _message_fields(message)
        self._added(index, {**fields, "status": "in_progress", "content": []})
        place = b'%s,"content_index":0,' % self._place(message.id, index)
        part = b'"part":{"type":"refusal","refusal":%s}'
        text = json_text(refusal)
        self._event("response.content_part.added", place + part % b'""')
        self._event("response.refusal.delta", place + b'"delta":%s' % text)
        self._event("response.refusal.done", place + b'"refusal":%s' % text)
        self._event("response.content_part.done", place + part % text)
        content = [{"type": "refusal", "refusal": refusal}]
        self._done(index, {**fields, "status": "completed", "content": content})

    # Reasoning.

    def _thought(self, event: ThoughtDelta) -> None:
        if event.text:
            self._think(event.text)
        item: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if item:
            secret = as_text(item.get("encrypted_content"))
            self._close_reasoning(secret if self._form.encrypted_reasoning else None)

    def _think(self, text: str) -> None:
        if self._reasoning is None:
            text, self._blank_thought = self._blank_thought + text, ""
            if not text.strip():
                self._blank_thought = text
                return
            self._open_reasoning()
            place = self._summary_place()
            self._event(
                "response.reasoning_summary_part.added",
                place + b'"part":{"type":"summary_text","text":""}',
            )
        assert self._reasoning is not None
        self._reasoning.pieces.append(text)
        self._event(
            "response.reasoning_summary_text.delta",
            self._summary_place() + b'"delta":' + json_text(text),
        )

    def _summary_place(self) -> bytes:
        assert self._reasoning is not None
        return self._place(self._reasoning.id, self._reasoning.index) + b',"summary_index":0,'

    def _open_reasoning(self) -> None:
        self._close_message("completed")
        index = self._next_index()
        item = item_id("reasoning", self._head.id, index)
        self._reasoning = _OpenText(item, index)
        begun: JsonObject = {"id": item, "type": "reasoning", "status": "in_progress"}
        self._added(index, {**begun, "summary": []})

    def _close_reasoning(self, secret: str | None = None, *, dropped: bool = False) -> None:
        self._blank_thought = ""
        if self._reasoning is None:
            if secret is None:
                return
            self._open_reasoning()
        assert self._reasoning is not None
        reasoning, place = self._reasoning, self._summary_place()
        self._reasoning = None
        summary: list[JsonObject] = []
        if reasoning.pieces:
            text = Raw(json_text("".join(reasoning.pieces)))
            part = {"type": "summary_text", "text": text}
            summary.append(part)
            self._event("response.reasoning_summary_text.done", place + b'"text":' + bytes(text))
            self._event(
                "response.reasoning_summary_part.done", place + b'"part":' + encode_json(part)
            )
        item: JsonObject = {"id": reasoning.id, "type": "reasoning", "status": "completed"}
        item["summary"] = summary
        if secret is not None:
            item["encrypted_content"] = secret
        self._done(reasoning.index, item, dropped=dropped)

    # Calls.

    def _call_started(self, event: ToolCallStarted) -> None:
        opened = _OpenCall(event.index, FunctionCall(event.name, "", event.id))
        self._calls[event.index] = opened
        tool = self._tools.get(event.name)
        # The name of a call may come late, and one that needs an approval is shown after it.
        if tool is not None and not (tool.runnable and tool.options.approve):
            self._show_call(opened)

    def _show_call(self, opened: _OpenCall) -> None:
        """Adds the call's item, unless it is hidden from the client."""
        if opened.kind or not (kind := self._kind_of(opened.call.name)):
            return
        self._close_message("completed")
        self._close_reasoning()
        opened.kind = kind
        opened.index = self._next_index()
        opened.id = item_id(kind, self._head.id, opened.index)
        self._added(opened.index, self._call_item(opened, "in_progress", ""))
        if kind == "mcp_call":
            self._event("response.mcp_call.in_progress", self._place(opened.id, opened.index))

    def _kind_of(self, name: str) -> str:
        """The item type of a call; empty if it is hidden."""
        tool = self._tools.get(name)
        if tool is not None and not tool.runnable:
            return "custom_tool_call" if self._form.names.outward(name).custom else "function_call"
        return "" if self._form.server_tools == "hidden" else self._form.server_tools

    def _is_server_call(self, opened: _OpenCall) -> bool:
        tool = self._tools.get(opened.call.name)
        return tool is None or tool.runnable

    def _call_item(self, opened: _OpenCall, status: str, arguments: str) -> JsonObject:
        call = opened.call
        item: JsonObject = {"id": opened.id, "type": opened.kind, "status": status}
        if opened.kind == "mcp_call":
            server = self._form.servers.get(call.name) or ServerName(OWN_SERVER, call.name)
            return {
                **item,
                "server_label": server.server_label,
                "name": server.name,
                "arguments": arguments,
                "output": None,
                "error": None,
                "approval_request_id": opened.approval,
            }
        field = "input" if opened.kind == "custom_tool_call" else "arguments"
        names = self._form.names.fields(call.name)
        return {**item, "call_id": self._ids.outward(call.id), **names, field: arguments}

    def _call_delta(self, event: ToolCallDelta) -> None:
        opened = self._calls.get(event.index)
        if opened is not None and opened.kind and event.json:
            self._arguments(opened, event.json)

    def _arguments(self, opened: _OpenCall, text: str) -> None:
        if opened.kind != "custom_tool_call":  # its text is known when its JSON is complete
            opened.pieces = True
            place = self._place(opened.id, opened.index)
            self._event(_ARGUMENTS[opened.kind] + ".delta", place + b',"delta":' + json_text(text))

    def _call_ended(self, event: ToolCallEnded) -> None:
        opened = self._calls.get(event.index)
        if opened is None or opened.ended:
            return
        opened.ended = True
        opened.call = event.call
        is_server = self._is_server_call(opened)
        if is_server:
            self._waiting[event.call.id] = opened
            tool = self._tools.get(event.call.name)
            if tool is not None and tool.options.approve:
                return
        self._show_call(opened)
        if opened.kind:
            self._end_arguments(opened)

    def _end_arguments(self, opened: _OpenCall) -> None:
        """The call is complete. Its item stays open until the turn ends, or until its result."""
        place = self._place(opened.id, opened.index)
        if opened.kind == "custom_tool_call":
            arguments = free_text(opened.call.json)
            kind = _ARGUMENTS[opened.kind]
            if arguments:
                self._event(kind + ".delta", place + b',"delta":' + json_text(arguments))
            self._event(kind + ".done", place + b',"input":' + json_text(arguments))
        else:
            arguments = opened.call.json or "{}"
            if not opened.pieces:
                self._arguments(opened, arguments)
            ended = place + b',"arguments":' + json_text(arguments)
            if opened.kind == "function_call":
                ended += b',"name":' + encode_json(self._form.names.outward(opened.call.name).name)
            self._event(_ARGUMENTS[opened.kind] + ".done", ended)

    def _end_call(self, opened: _OpenCall, status: str) -> None:
        """The turn is over: only now it is known whether the call was cut."""
        if opened.kind not in ("", "mcp_call"):
            json = opened.call.json
            arguments = free_text(json) if opened.kind == "custom_tool_call" else json or "{}"
            self._done(opened.index, self._call_item(opened, status, arguments))

    def _run_ended(self, event: ToolRunEnded) -> None:
        opened = self._waiting.pop(event.response.id, None)
        if opened is None:
            return
        if not opened.kind:
            self._show_call(opened)
            if not opened.kind:
                return
            self._end_arguments(opened)
            if not self._calls:  # the turn is over, and did not end the call
                self._end_call(opened, "completed")
        if opened.kind == "mcp_call":
            self._end_mcp_call(opened, event)
            return
        self._results[opened.call.id] = event.response
        if not self._calls:  # the turn is over
            self._show_results()

    def _end_mcp_call(self, opened: _OpenCall, event: ToolRunEnded) -> None:
        response = event.response
        item = self._call_item(opened, "completed", opened.call.json or "{}")
        if event.outcome == "ok":
            item["output"] = response.text
        else:
            content = [{"type": "text", "text": response.error or response.text}]
            item["error"] = {"type": "mcp_tool_execution_error", "content": content}
            item["status"] = "failed"
        ended = f"response.mcp_call.{item['status']}"
        self._event(ended, self._place(opened.id, opened.index))
        self._done(opened.index, item)

    def _show_results(self) -> None:
        """Adds results of server tools, in call order, as far as all earlier ones are there."""
        for call_id in list(self._order):
            response = self._results.pop(call_id, None)
            if response is None:
                return
            self._order.pop(call_id)
            index = self._next_index()
            item: JsonObject = {
                "id": item_id("function_call_output", self._head.id, index),
                "type": "function_call_output",
                "status": "completed",
                "call_id": self._ids.outward(call_id),
                "output": result_output(response),
            }
            self._added(index, item)
            self._done(index, item)

    def _approval(self, event: ApprovalRequested) -> None:
        self._time = event.time
        if self._form.server_tools == "hidden":
            return
        call = event.call
        index = self._next_index()
        item = approval_id(self._head.id, call.id)
        if (opened := self._waiting.get(call.id)) is not None:
            opened.approval = item
        server = self._form.servers.get(call.name) or ServerName(OWN_SERVER, call.name)
        fields: JsonObject = {
            "id": item,
            "type": "mcp_approval_request",
            "server_label": server.server_label,
            "name": server.name,
            "arguments": call.json or "{}",
        }
        self._close_message("completed")
        self._close_reasoning()
        self._added(index, fields)
        self._done(index, fields)

    # Other parts, rounds and the end.

    def _part(self, event: PartReceived) -> None:
        match event.part:
            case InlineData(data=data, mime_type=mime) if mime.startswith("image/"):
                item: JsonObject = {"type": "image_generation_call", "status": "completed"}
                item |= {"result": to_base64(data), "output_format": mime.partition("/")[2]}
            case Opaque(provider=provider, data=data) if provider == PROVIDER:
                item = data
            case _:
                return
        self._close_message("completed")
        self._close_reasoning()
        index = self._next_index()
        item = {"id": item_id(str(item.get("type")), self._head.id, index), **item}
        self._added(index, {**item, "result": None} if "result" in item else item)
        self._done(index, item)

    def _round_started(self, event: RoundStarted) -> None:
        self._held.clear()
        self._close_round()
        self._round_start = self._index

    def _round_restarted(self, event: RoundRestarted) -> None:
        """The round is repeated: what it has written so far is not part of the answer."""
        self._held.clear()
        self._results.clear()
        self._order.clear()
        self._close_round(dropped=True)
        for index in [index for index in self._items if index >= self._round_start]:
            del self._items[index]
        self._round_start = self._index

    def _turn_ended(self, event: TurnEnded) -> None:
        self._usage += event.usage
        self._time = event.time
        if self._holds and not self._calls:
            self._release()
        status = "incomplete" if event.finish in _CUT_TURNS else "completed"
        self._close_message(status)
        self._close_reasoning()
        for opened in self._calls.values():
            self._end_call(opened, status)
        if event.message_extra and (refusal := _refusal_in(event.message_extra)):
            self._refuse(refusal)
        pairs = [each for each in self._calls.values() if self._is_pair(each)]
        self._order = {each.call.id: None for each in pairs}
        self._calls.clear()
        self._show_results()

    def _is_pair(self, opened: _OpenCall) -> bool:
        return self._form.server_tools == "function_call" and self._is_server_call(opened)

    def _run_over(self, event: RunEnded) -> None:
        self._ended = event
        self._close_round()

    def _close_round(self, *, dropped: bool = False) -> None:
        """Ends all open items. The calls of a turn that has not ended are not in the answer."""
        if self._held:
            self._release()
        self._close_message("incomplete", dropped=dropped)
        self._close_reasoning(dropped=dropped)
        for opened in self._calls.values():  # their turn has not ended
            self._cut_call(opened, dropped=True)
        for opened in self._waiting.values():
            if opened.kind == "mcp_call":
                self._cut_call(opened, dropped=dropped)
        self._calls.clear()
        self._waiting.clear()

    def _cut_call(self, opened: _OpenCall, *, dropped: bool) -> None:
        if opened.kind:
            self._done(
                opened.index,
                self._call_item(opened, "incomplete", opened.call.json),
                dropped=dropped,
            )
            opened.kind = ""

    # On the class: a table of bound methods would be a reference cycle.
    _ENCODERS: ClassVar[_Table] = {
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        ToolCallDelta: _call_delta,
        ToolCallEnded: _call_ended,
        TurnEnded: _turn_ended,
        ToolRunEnded: _run_ended,
        ApprovalRequested: _approval,
        RoundStarted: _round_started,
        RoundRestarted: _round_restarted,
        RunEnded: _run_over,
    }


_ARGUMENTS = {
    "function_call": "response.function_call_arguments",
    "mcp_call": "response.mcp_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}
_NO_USAGE = Usage()


def _message_fields(message: _OpenText) -> JsonObject:
    phase = {"phase": message.phase} if message.phase else {}
    return {"id": message.id, "type": "message", "role": "assistant", **phase}


def _logprobs_of(event: TextDelta) -> list[Any]:
    return as_list((event.logprobs or {}).get("content")) or []


def _refusal_in(extra: JsonObject) -> str | None:
    """The refusal of a model on this wire, or on that of chat completions."""
    for provider in (PROVIDER, "openai"):
        if refusal := as_text((as_object(extra.get(provider)) or {}).get("refusal")):
            return refusal
    return None


def response_body(
    head: ResponseHead,
    reply: Reply,
    tools: Mapping[str, Tool],
    ids: CallIds,
    form: OutputForm = DEFAULT_FORM,
    *,
    ended_at: float = 0.0,
    problem: Problem | None = None,
) -> bytes:
    """The whole response as one JSON body."""
    encoder = ResponseEncoder(head, tools, ids, form, after=QUIET)
    encoder.encode(events_of(reply, ended_at))
    return encoder.response(problem=problem)


QUIET = 2**62
"""As `after`: no event is written, only the response is built."""
