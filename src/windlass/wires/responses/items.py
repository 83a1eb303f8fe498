"""The items of a response, written piece by piece: text, reasoning, calls and approvals. Pure.

The item of a call is added when the call begins, and ends with its turn. An `mcp_call` contains the
result of the call, and ends with that.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw

from windlass.content import FunctionCall, FunctionResponse
from windlass.events import (
    ApprovalRequested,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
)
from windlass.jsontext import encode_json
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.encoding import json_text
from windlass.wires.fields import JsonObject, as_list, as_text
from windlass.wires.responses.item_ids import approval_id
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.messages import free_text, result_output
from windlass.wires.responses.response import OutputForm, ResponseEvents


class OpenText:
    """A message or a reasoning item that is being written."""

    __slots__ = ("annotations", "id", "index", "logprobs", "phase", "pieces")

    def __init__(self, item: str, index: int, phase: str | None = None) -> None:
        self.id, self.index, self.phase = item, index, phase
        self.pieces: list[str] = []
        self.annotations: list[Any] = []
        self.logprobs: list[Any] = []

    def message_fields(self) -> JsonObject:
        phase = {"phase": self.phase} if self.phase else {}
        return {"id": self.id, "type": "message", "role": "assistant", **phase}


class TextItems:
    """Writes text and thoughts. At most one message or one reasoning item is open at a time.

    An item is opened by its first text that is not blank.
    """

    __slots__ = (
        "_blank_text",
        "_blank_thought",
        "_output",
        "_phase",
        "_reasoning",
        "_shows_encrypted",
        "before_text",
        "message",
    )

    def __init__(self, output: ResponseEvents, *, encrypted_reasoning: bool) -> None:
        self._output, self._shows_encrypted = output, encrypted_reasoning
        self.message: OpenText | None = None
        """The open message."""
        self.before_text = b""
        """The start of a text delta of the open message."""
        self._reasoning: OpenText | None = None
        self._blank_text = self._blank_thought = ""
        self._phase: str | None = None
        """The phase of the next message."""

    def close(self) -> None:
        """Ends the open item, because an item of another kind follows."""
        self.close_message("completed")
        self.close_reasoning()

    # Messages.

    def say(self, event: TextDelta) -> None:
        """Adds text to the open message, or opens one."""
        own: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if (phase := as_text(own.get("phase"))) is not None:
            self.close_message("completed")
            self._phase = phase
        if event.text:
            self._say_text(event)
        if (annotations := as_list(own.get("annotations"))) and self.message is not None:
            self._annotate(self.message, annotations)

    def _say_text(self, event: TextDelta) -> None:
        text = self._blank_text + event.text
        if (message := self.message) is None:
            if not text.strip():
                self._blank_text = text
                return
            self._blank_text = ""
            self.close_reasoning()
            message = self._open_message()
        message.pieces.append(text)
        logprobs = as_list((event.logprobs or {}).get("content")) or []
        message.logprobs += logprobs
        place = self._output.place(message.id, message.index)
        self._output.event(
            "response.output_text.delta",
            b'%s,"content_index":0,"logprobs":%s,"delta":%s'
            % (place, encode_json(logprobs), json_text(text)),
        )

    def _open_message(self) -> OpenText:
        output = self._output
        item, index = output.new_item("message")
        message = self.message = OpenText(item, index, self._phase)
        self._phase = None
        output.add(index, {**message.message_fields(), "status": "in_progress", "content": []})
        place = b'%s,"content_index":0,' % output.place(item, index)
        part = b'"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}'
        output.event("response.content_part.added", place + part)
        self.before_text = (
            b"event: response.output_text.delta\n"
            b'data: {"type":"response.output_text.delta",%s"logprobs":[],"delta":' % place
        )
        return message

    def _annotate(self, message: OpenText, annotations: list[Any]) -> None:
        place = self._output.place(message.id, message.index)
        for annotation in annotations:
            number = len(message.annotations)
            message.annotations.append(annotation)
            self._output.event(
                "response.output_text.annotation.added",
                b'%s,"content_index":0,"annotation_index":%d,"annotation":%s'
                % (place, number, encode_json(annotation)),
            )

    def close_message(self, status: str, *, dropped: bool = False) -> None:
        """Ends the open message, if any. A dropped message is not part of the response."""
        self._blank_text = ""
        message, self.message = self.message, None
        if message is None:
            return
        text = Raw(json_text("".join(message.pieces)))
        part = Raw(
            encode_json(
                {
                    "type": "output_text",
                    "annotations": message.annotations,
                    "logprobs": message.logprobs,
                    "text": text,
                }
            )
        )
        place = b'%s,"content_index":0,' % self._output.place(message.id, message.index)
        self._output.event(
            "response.output_text.done",
            b'%s"logprobs":%s,"text":%s' % (place, encode_json(message.logprobs), bytes(text)),
        )
        self._output.event("response.content_part.done", b'%s"part":%s' % (place, bytes(part)))
        item = {**message.message_fields(), "status": status, "content": [part]}
        self._output.finish(message.index, item, dropped=dropped)

    def refuse(self, refusal: str) -> None:
        """Writes a message that consists of a refusal."""
        output = self._output
        item, index = output.new_item("message")
        fields = OpenText(item, index).message_fields()
        output.add(index, {**fields, "status": "in_progress", "content": []})
        place = b'%s,"content_index":0,' % output.place(item, index)
        part = b'"part":{"type":"refusal","refusal":%s}'
        text = json_text(refusal)
        output.event("response.content_part.added", place + part % b'""')
        output.event("response.refusal.delta", place + b'"delta":%s' % text)
        output.event("response.refusal.done", place + b'"refusal":%s' % text)
        output.event("response.content_part.done", place + part % text)
        content = [{"type": "refusal", "refusal": refusal}]
        output.finish(index, {**fields, "status": "completed", "content": content})

    # Reasoning.

    def think(self, event: ThoughtDelta) -> None:
        """Adds a thought to the open reasoning item, or opens one."""
        if event.text:
            self._think_text(event.text)
        item: JsonObject = event.extra.get(PROVIDER, {}) if event.extra else {}
        if item:
            encrypted = as_text(item.get("encrypted_content"))
            self.close_reasoning(encrypted if self._shows_encrypted else None)

    def _think_text(self, text: str) -> None:
        output = self._output
        if (reasoning := self._reasoning) is None:
            text, self._blank_thought = self._blank_thought + text, ""
            if not text.strip():
                self._blank_thought = text
                return
            reasoning = self._open_reasoning()
            output.event(
                "response.reasoning_summary_part.added",
                self._summary_place(reasoning) + b'"part":{"type":"summary_text","text":""}',
            )
        reasoning.pieces.append(text)
        output.event(
            "response.reasoning_summary_text.delta",
            self._summary_place(reasoning) + b'"delta":' + json_text(text),
        )

    def _open_reasoning(self) -> OpenText:
        self.close_message("completed")
        item, index = self._output.new_item("reasoning")
        reasoning = self._reasoning = OpenText(item, index)
        begun: JsonObject = {"id": item, "type": "reasoning", "status": "in_progress"}
        self._output.add(index, {**begun, "summary": []})
        return reasoning

    def _summary_place(self, reasoning: OpenText) -> bytes:
        return self._output.place(reasoning.id, reasoning.index) + b',"summary_index":0,'

    def close_reasoning(self, encrypted: str | None = None, *, dropped: bool = False) -> None:
        """Ends the open reasoning item, if any. With `encrypted`, there is always one."""
        self._blank_thought = ""
        reasoning = self._reasoning
        if reasoning is None:
            if encrypted is None:
                return
            reasoning = self._open_reasoning()
        self._reasoning = None
        item: JsonObject = {"id": reasoning.id, "type": "reasoning", "status": "completed"}
        item["summary"] = self._summary(reasoning)
        if encrypted is not None:
            item["encrypted_content"] = encrypted
        self._output.finish(reasoning.index, item, dropped=dropped)

    def _summary(self, reasoning: OpenText) -> list[JsonObject]:
        """Ends the summary of a reasoning item, and returns its parts."""
        if not reasoning.pieces:
            return []
        place = self._summary_place(reasoning)
        text = Raw(json_text("".join(reasoning.pieces)))
        part = {"type": "summary_text", "text": text}
        done = "response.reasoning_summary_text.done"
        self._output.event(done, place + b'"text":' + bytes(text))
        done = "response.reasoning_summary_part.done"
        self._output.event(done, place + b'"part":' + encode_json(part))
        return [part]


_ARGUMENT_EVENTS = {
    "function_call": "response.function_call_arguments",
    "mcp_call": "response.mcp_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}
"""The names of the events with a call's arguments, by the type of its item."""


class OpenCall:
    """A call whose item has not ended."""

    __slots__ = ("approval", "call", "ended", "has_deltas", "id", "index", "type")

    def __init__(self, call: FunctionCall) -> None:
        self.call = call
        self.type = ""
        """The type of its item; empty while the client does not see the call."""
        self.id, self.index = "", -1
        self.has_deltas = False
        """Whether a part of its arguments has been written."""
        self.ended = False
        """Whether the model has finished the call."""
        self.approval: str | None = None
        """The id of the item that asked for its approval."""


class CallItems:
    """Writes the calls of one response. `texts` are its other items, which a call ends."""

    def __init__(
        self,
        output: ResponseEvents,
        texts: TextItems,
        tools: Mapping[str, Tool],
        ids: CallIds,
        form: OutputForm,
    ) -> None:
        self._output, self._texts = output, texts
        self._tools, self._ids, self._form = tools, ids, form
        self._of_turn: dict[int, OpenCall] = {}
        """The calls of the current turn by their number. Empty when the turn has ended."""
        self._waiting: dict[str, OpenCall] = {}
        """The calls of server tools without a result, by their id."""
        self._results: dict[str, FunctionResponse] = {}
        """Results that are written when the turn has ended, in call order."""
        self._order: dict[str, None] = {}
        """The ids of the calls whose results are written next, in call order."""

    @property
    def in_turn(self) -> bool:
        """Whether the current turn has calls."""
        return bool(self._of_turn)

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Reads the events of earlier responses of the run: the calls that still wait."""
        for event in events:
            match event:
                case RoundStarted() | RoundRestarted():
                    self._waiting.clear()
                    self._order.clear()
                case ToolCallEnded(call=call) if self._is_server_call(call):
                    opened = OpenCall(call)
                    opened.ended = True
                    self._waiting[call.id] = opened
                    if self._has_result_item(call):
                        self._order[call.id] = None
                case ApprovalRequested(call=call) if call.id in self._waiting:
                    self._waiting[call.id].approval = approval_id(self._output.response, call.id)
                case ToolRunEnded(response=response):
                    self._waiting.pop(response.id, None)
                    self._order.pop(response.id, None)
                case _:
                    pass

    # The model makes a call.

    def begin(self, event: ToolCallStarted) -> None:
        opened = OpenCall(FunctionCall(event.name, "", event.id))
        self._of_turn[event.index] = opened
        tool = self._tools.get(event.name)
        # The name of a call may come late, and a call that needs an approval is shown after it.
        if tool is not None and not (tool.runnable and tool.options.approve):
            self._show(opened)

    def _show(self, opened: OpenCall) -> None:
        """Adds the call's item, unless it is hidden from the client."""
        if opened.type or not (kind := self._type_of(opened.call)):
            return
        self._texts.close()
        opened.type = kind
        opened.id, opened.index = self._output.new_item(kind)
        self._output.add(opened.index, self._item(opened, "in_progress", ""))
        if kind == "mcp_call":
            self._output.event("response.mcp_call.in_progress", self._place(opened))

    def _type_of(self, call: FunctionCall) -> str:
        """The item type of a call; empty if it is hidden."""
        if not self._is_server_call(call):
            is_custom = self._form.names.outward(call.name).custom
            return "custom_tool_call" if is_custom else "function_call"
        return "" if self._form.server_tools == "hidden" else self._form.server_tools

    def _is_server_call(self, call: FunctionCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.runnable

    def _has_result_item(self, call: FunctionCall) -> bool:
        """Whether the result of the call is a separate item."""
        return self._form.server_tools == "function_call" and self._is_server_call(call)

    def _place(self, opened: OpenCall) -> bytes:
        return self._output.place(opened.id, opened.index)

    def _item(self, opened: OpenCall, status: str, arguments: str) -> JsonObject:
        call = opened.call
        item: JsonObject = {"id": opened.id, "type": opened.type, "status": status}
        if opened.type == "mcp_call":
            server = self._form.server_name(call.name)
            return {
                **item,
                "server_label": server.server_label,
                "name": server.name,
                "arguments": arguments,
                "output": None,
                "error": None,
                "approval_request_id": opened.approval,
            }
        field = "input" if opened.type == "custom_tool_call" else "arguments"
        names = self._form.names.fields(call.name)
        return {**item, "call_id": self._ids.outward(call.id), **names, field: arguments}

    def add_arguments(self, event: ToolCallDelta) -> None:
        opened = self._of_turn.get(event.index)
        if opened is not None and opened.type and event.json:
            self._write_arguments(opened, event.json)

    def _write_arguments(self, opened: OpenCall, text: str) -> None:
        if opened.type != "custom_tool_call":  # the text is known only when its JSON is complete
            opened.has_deltas = True
            delta = self._place(opened) + b',"delta":' + json_text(text)
            self._output.event(_ARGUMENT_EVENTS[opened.type] + ".delta", delta)

    def end(self, event: ToolCallEnded) -> None:
        opened = self._of_turn.get(event.index)
        if opened is None or opened.ended:
            return
        opened.ended = True
        opened.call = event.call
        if self._is_server_call(event.call):
            self._waiting[event.call.id] = opened
            tool = self._tools.get(event.call.name)
            if tool is not None and tool.options.approve:
                return
        self._show(opened)
        if opened.type:
            self._end_arguments(opened)

    def _end_arguments(self, opened: OpenCall) -> None:
        """The call is complete. Its item stays open until the turn ends, or until its result."""
        kind, place = _ARGUMENT_EVENTS[opened.type], self._place(opened)
        if opened.type == "custom_tool_call":
            arguments = free_text(opened.call.json)
            if arguments:
                self._output.event(kind + ".delta", place + b',"delta":' + json_text(arguments))
            self._output.event(kind + ".done", place + b',"input":' + json_text(arguments))
            return
        arguments = opened.call.json or "{}"
        if not opened.has_deltas:
            self._write_arguments(opened, arguments)
        ended = place + b',"arguments":' + json_text(arguments)
        if opened.type == "function_call":
            ended += b',"name":' + encode_json(self._form.names.outward(opened.call.name).name)
        self._output.event(kind + ".done", ended)

    def end_turn(self, status: str) -> None:
        """Ends the items of the turn's calls: only now it is known whether they were cut."""
        for opened in self._of_turn.values():
            self._end_item(opened, status)

    def _end_item(self, opened: OpenCall, status: str) -> None:
        if opened.type not in ("", "mcp_call"):
            json = opened.call.json
            arguments = free_text(json) if opened.type == "custom_tool_call" else json or "{}"
            self._output.finish(opened.index, self._item(opened, status, arguments))

    def begin_results(self) -> None:
        """The turn is over: its results follow, in call order."""
        calls = [opened.call for opened in self._of_turn.values()]
        self._order = {call.id: None for call in calls if self._has_result_item(call)}
        self._of_turn.clear()
        self._write_results()

    # A call is approved, and has a result.

    def ask(self, event: ApprovalRequested) -> None:
        """Writes the item that asks for an approval, unless calls are hidden."""
        if self._form.server_tools == "hidden":
            return
        call = event.call
        _, index = self._output.new_item("mcp_approval_request")
        item = approval_id(self._output.response, call.id)
        if (opened := self._waiting.get(call.id)) is not None:
            opened.approval = item
        server = self._form.server_name(call.name)
        fields: JsonObject = {
            "id": item,
            "type": "mcp_approval_request",
            "server_label": server.server_label,
            "name": server.name,
            "arguments": call.json or "{}",
        }
        self._texts.close()
        self._output.add(index, fields)
        self._output.finish(index, fields)

    def answer(self, event: ToolRunEnded) -> None:
        """Writes a result, or keeps it until its turn has ended."""
        opened = self._waiting.pop(event.response.id, None)
        if opened is None:
            return
        if not opened.type:
            self._show(opened)
            if not opened.type:
                return
            self._end_arguments(opened)
            if not self._of_turn:  # the turn is over, and did not end the call
                self._end_item(opened, "completed")
        if opened.type == "mcp_call":
            self._end_mcp_call(opened, event)
            return
        self._results[opened.call.id] = event.response
        if not self._of_turn:
            self._write_results()

    def _end_mcp_call(self, opened: OpenCall, event: ToolRunEnded) -> None:
        response = event.response
        item = self._item(opened, "completed", opened.call.json or "{}")
        if event.outcome == "ok":
            item["output"] = response.text
        else:
            content = [{"type": "text", "text": response.error or response.text}]
            item["error"] = {"type": "mcp_tool_execution_error", "content": content}
            item["status"] = "failed"
        self._output.event(f"response.mcp_call.{item['status']}", self._place(opened))
        self._output.finish(opened.index, item)

    def _write_results(self) -> None:
        """Writes the results in call order, up to the first call without a result."""
        for call_id in list(self._order):
            response = self._results.pop(call_id, None)
            if response is None:
                return
            self._order.pop(call_id)
            item_id, index = self._output.new_item("function_call_output")
            item: JsonObject = {
                "id": item_id,
                "type": "function_call_output",
                "status": "completed",
                "call_id": self._ids.outward(call_id),
                "output": result_output(response),
            }
            self._output.add(index, item)
            self._output.finish(index, item)

    # The round ends early.

    def forget_results(self) -> None:
        """Forgets the results that are not written yet: their round is repeated."""
        self._results.clear()
        self._order.clear()

    def close(self, *, dropped: bool) -> None:
        """Ends all open calls. The calls of a turn that has not ended are always dropped."""
        for opened in self._of_turn.values():
            self._cut(opened, dropped=True)
        for opened in self._waiting.values():
            if opened.type == "mcp_call":
                self._cut(opened, dropped=dropped)
        self._of_turn.clear()
        self._waiting.clear()

    def _cut(self, opened: OpenCall, *, dropped: bool) -> None:
        if opened.type:
            item = self._item(opened, "incomplete", opened.call.json)
            self._output.finish(opened.index, item, dropped=dropped)
            opened.type = ""
