"""Encodes a run as a response: as a stream of events, or as one body. Pure.

One response covers all rounds of the run. The encoder is deterministic: fed with the same log, it
writes the same bytes, so that a client can resume after any `sequence_number`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

from msgspec.structs import replace

from windlass.content import InlineData, Opaque, Usage
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
from windlass.jsontext import encode_json, to_base64
from windlass.tool import Tool
from windlass.wires.calls import CallIds
from windlass.wires.encoding import json_text
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject, as_object, as_text
from windlass.wires.responses.items import CallItems, TextItems
from windlass.wires.responses.media import PROVIDER
from windlass.wires.responses.response import (
    DEFAULT_FORM,
    END_EVENTS,
    RESPONSE_ENDS,
    OutputForm,
    ResponseEnd,
    ResponseEvents,
    ResponseHead,
    ResponseObject,
    Status,
    ToolListing,
    error_event_fields,
)

DONE = b"data: [DONE]\n\n"
_CUT_TURNS = ("length", "content_filter", "other")
"""Finish reasons after which the last item is incomplete."""
_NO_USAGE = Usage()
_Table: TypeAlias = dict[type[Event], Callable[..., None]]


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
        self._head = head
        self._writer = ResponseObject(head)
        self._output = ResponseEvents(head.id, after)
        self._texts = TextItems(self._output, encrypted_reasoning=form.encrypted_reasoning)
        self._calls = CallItems(self._output, self._texts, tools, ids, form)
        self._round_start = 0
        """The index of the round's first item."""
        self._holds_text = not form.all_text and any(tool.runnable for tool in tools.values())
        self._held: list[TextDelta] = []
        """Text of a round that may not be the last."""
        self._usage = Usage()
        self._time = 0.0
        self._refused = False
        self._ended: RunEnded | None = None
        self._first = self._opening(form.listings)
        """The first events. They are always the same."""

    @property
    def last_number(self) -> int:
        """The sequence number of the last event."""
        return self._output.number - 1

    def begin(self) -> bytes:
        """The first events: the response is created, and the tools of its servers are listed."""
        return self._first

    def encode(self, events: Iterable[RunEvent]) -> bytes:
        """The events of the response for these events of the run; often none."""
        encoders, output, texts = self._ENCODERS, self._output, self._texts
        written, after = output.written, output.after
        for event in events:
            if (
                type(event) is TextDelta
                and (message := texts.message) is not None
                and (text := event.text)
                and event.extra is None
                and event.logprobs is None
            ):  # the fast path, for nearly all events
                message.pieces.append(text)
                number = output.number
                output.number = number + 1
                if number > after:
                    end = b',"sequence_number":%d}\n\n' % number
                    written.append(texts.before_text + json_text(text) + end)
            elif (kind := type(event)) in encoders:
                encoders[kind](self, event)
        if len(written) == 1:
            return written.pop()
        return output.taken()

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Reads the events of earlier responses of the run: the calls that still wait."""
        self._calls.remember(events)

    def keep_alive(self) -> bytes:
        """Repeats `response.in_progress`: some clients ignore comments.

        It has the number of the last event, because it is not part of the log. It does not repeat
        the tools and instructions, which may be long.
        """
        short: JsonObject = {**self._head.echo, "instructions": None, "tools": []}
        now = ResponseObject(replace(self._head, echo=short)).write("in_progress", b"")
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
            self._output.event("error", fields[1:-1])
        self._output.event(END_EVENTS[ending.status], b'"response":' + self._response(ending))
        return self._output.taken() + DONE

    def response(self, status: Status | None = None, problem: Problem | None = None) -> bytes:
        """The response object as JSON. `status` is that of an active run."""
        if status in ("queued", "in_progress"):
            return self._writer.write(status, self._output.json())
        self._close_round()
        self._output.taken()
        return self._response(self._ending(problem))

    def _opening(self, listings: Iterable[ToolListing]) -> bytes:
        output = self._output
        is_shown = output.after < 1
        begun = b'"response":' + self._writer.write("in_progress", b"") if is_shown else b""
        output.event("response.created", begun)
        output.event("response.in_progress", begun)
        for listing in listings:
            self._list_tools(listing)
        return output.taken()

    def _list_tools(self, listing: ToolListing) -> None:
        output = self._output
        item, index = output.new_item("mcp_list_tools")
        fields: JsonObject = {
            "id": item,
            "type": "mcp_list_tools",
            "server_label": listing.server_label,
        }
        output.add(index, {**fields, "tools": []})
        place = output.place(item, index)
        output.event("response.mcp_list_tools.in_progress", place)
        output.event("response.mcp_list_tools.completed", place)
        output.finish(index, {**fields, "tools": listing.tools, "error": None})

    def _ending(self, problem: Problem | None) -> ResponseEnd:
        if problem is not None:
            return ResponseEnd("failed", failure=problem)
        if self._ended is None:
            return ResponseEnd("completed")
        ending = RESPONSE_ENDS[self._ended.reason]
        if ending.status == "failed":
            text = self._ended.error or f"The run ended: {self._ended.reason}."
            return ResponseEnd("failed", failure=Problem(500, text))
        if self._ended.reason == "content_filter" and self._refused:
            return ResponseEnd("completed")
        return ending

    def _response(self, ending: ResponseEnd) -> bytes:
        ended = self._ended
        usage = ended.usage if ended is not None and ended.usage != _NO_USAGE else self._usage
        at = int(ended.time if ended is not None else self._time) or self._head.created_at
        return self._writer.write(
            ending.status,
            self._output.json(),
            usage=usage,
            completed_at=at if ending.status == "completed" else None,
            ending=ending,
        )

    # The events of a turn.

    def _text(self, event: TextDelta) -> None:
        if self._holds_text:
            self._held.append(event)
        else:
            self._texts.say(event)

    def _release_text(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self._texts.say(event)

    def _thought(self, event: ThoughtDelta) -> None:
        self._texts.think(event)

    def _part(self, event: PartReceived) -> None:
        match event.part:
            case InlineData(data=data, mime_type=mime) if mime.startswith("image/"):
                fields: JsonObject = {"type": "image_generation_call", "status": "completed"}
                fields |= {"result": to_base64(data), "output_format": mime.partition("/")[2]}
            case Opaque(provider=provider, data=data) if provider == PROVIDER:
                fields = data
            case _:
                return
        self._texts.close()
        item, index = self._output.new_item(str(fields.get("type")))
        fields = {"id": item, **fields}
        self._output.add(index, {**fields, "result": None} if "result" in fields else fields)
        self._output.finish(index, fields)

    def _call_started(self, event: ToolCallStarted) -> None:
        self._calls.begin(event)

    def _call_delta(self, event: ToolCallDelta) -> None:
        self._calls.add_arguments(event)

    def _call_ended(self, event: ToolCallEnded) -> None:
        self._calls.end(event)

    def _turn_ended(self, event: TurnEnded) -> None:
        self._usage += event.usage
        self._time = event.time
        if self._holds_text and not self._calls.in_turn:
            self._release_text()
        status = "incomplete" if event.finish in _CUT_TURNS else "completed"
        self._texts.close_message(status)
        self._texts.close_reasoning()
        self._calls.end_turn(status)
        if event.message_extra and (refusal := _refusal_in(event.message_extra)):
            self._refused = True
            self._texts.refuse(refusal)
        self._calls.begin_results()

    # The events of tools, rounds and the run.

    def _approval(self, event: ApprovalRequested) -> None:
        self._time = event.time
        self._calls.ask(event)

    def _tool_ended(self, event: ToolRunEnded) -> None:
        self._calls.answer(event)

    def _round_started(self, event: RoundStarted) -> None:
        self._held.clear()
        self._close_round()
        self._round_start = self._output.next_index

    def _round_restarted(self, event: RoundRestarted) -> None:
        """The round is repeated: what it has written so far is not part of the answer."""
        self._held.clear()
        self._calls.forget_results()
        self._close_round(dropped=True)
        self._output.drop_from(self._round_start)
        self._round_start = self._output.next_index

    def _run_ended(self, event: RunEnded) -> None:
        self._ended = event
        self._close_round()

    def _close_round(self, *, dropped: bool = False) -> None:
        """Ends all open items."""
        self._release_text()
        self._texts.close_message("incomplete", dropped=dropped)
        self._texts.close_reasoning(dropped=dropped)
        self._calls.close(dropped=dropped)

    # On the class: a table of bound methods would be a reference cycle.
    _ENCODERS: ClassVar[_Table] = {
        TextDelta: _text,
        ThoughtDelta: _thought,
        PartReceived: _part,
        ToolCallStarted: _call_started,
        ToolCallDelta: _call_delta,
        ToolCallEnded: _call_ended,
        TurnEnded: _turn_ended,
        ToolRunEnded: _tool_ended,
        ApprovalRequested: _approval,
        RoundStarted: _round_started,
        RoundRestarted: _round_restarted,
        RunEnded: _run_ended,
    }


def _refusal_in(extra: JsonObject) -> str | None:
    """The refusal of a model on this wire, or on that of chat completions."""
    for provider in (PROVIDER, "openai"):
        if refusal := as_text((as_object(extra.get(provider)) or {}).get("refusal")):
            return refusal
    return None
