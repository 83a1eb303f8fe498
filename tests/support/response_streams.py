"""Shared by the tests of the Responses wire: runs, their streams, and the official types."""

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec
import openresponses_types.types as specified
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

from windlass import AsyncClient, Reply
from windlass.events import RunEvent
from windlass.model import Model
from windlass.request import RequestLimits, RunRequest
from windlass.tool import Tool, as_tools
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem
from windlass.wires.responses.item_ids import response_id
from windlass.wires.responses.read_request import options_of, read_request
from windlass.wires.responses.response import NO_EVENTS, OutputForm, ResponseHead
from windlass.wires.responses.tools import read_tools
from windlass.wires.responses.write_events import ResponseEncoder

RUN = "run_0123456789abcdef01234567"
LIMITS = RequestLimits()
CREATED = 1_790_000_000
_FREE_CODES = ("error", "response.failed")
"""Events with an error code. The service uses codes that the SDK's types do not list."""


def _sdk_events() -> dict[str, type[BaseModel]]:
    union, *_ = get_args(ResponseStreamEvent)
    return {get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(union)}


OFFICIAL = _sdk_events()
"""The events of OpenAI's SDK."""


def _specified_events() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    for name, kind in vars(specified).items():
        if name.endswith("StreamingEvent") and isinstance(kind, type):
            values = kind.model_fields["type"].annotation
            found |= {str(value.value): kind for value in values}
    return found


SPECIFIED = _specified_events()
"""The events of Open Responses."""
PORTABLE = {"message", "function_call", "function_call_output", "reasoning", "compaction"}
"""The items that Open Responses knows."""


def request(model: str = "m", **fields: Any) -> RunRequest:
    """The request with these fields, read from its JSON."""
    fields = {"input": "hi", **fields}
    return read_request(msgspec.json.encode({"model": model, **fields}), LIMITS)


def head_of(asked: RunRequest, run_id: str = RUN) -> ResponseHead:
    return ResponseHead(response_id(run_id), CREATED, asked.model, options_of(asked.answer).echo)


def offered(asked: RunRequest, server: Iterable[Any] = ()) -> dict[str, Tool]:
    """The tools of the client and of the server, by name."""
    client = asked.tools.read(asked.tools.source, LIMITS)
    return {tool.name: tool for tool in (*client, *as_tools(list(server)))}


def form_of(asked: RunRequest, **options: Any) -> OutputForm:
    names = read_tools(asked.tools.source, LIMITS).names
    secret = options_of(asked.answer).encrypted_reasoning
    return OutputForm(names=names, encrypted_reasoning=secret, **options)


async def run_of(
    model: Model, asked: RunRequest, server: Sequence[Any] = (), **options: Any
) -> tuple[list[RunEvent], Reply | None]:
    """The events of a run for this request, and its reply, if it has one."""
    client = AsyncClient(model)
    tools = list(offered(asked, server).values())
    run = await client.start(
        list(asked.messages), tools=tools, tool_choice=asked.tool_choice, **options
    )
    events = [event async for event in client.subscribe(run.id)]
    await client.aclose()
    return events, run.reply if run.error is None else None


def streamed(
    events: Iterable[RunEvent],
    asked: RunRequest,
    server: Sequence[Any] = (),
    *,
    after: int = -1,
    problem: Problem | None = None,
    **options: Any,
) -> bytes:
    """Returns the stream of a run, encoded event by event."""
    encoder = ResponseEncoder(
        head_of(asked), offered(asked, server), CallIds(RUN), form_of(asked, **options), after=after
    )
    pieces = [encoder.begin(), *(encoder.encode([event]) for event in events)]
    return b"".join([*pieces, encoder.end(problem)])


def body_of(
    events: Iterable[RunEvent], asked: RunRequest, server: Sequence[Any] = (), **options: Any
) -> bytes:
    """The response of a run as one body."""
    tools, form = offered(asked, server), form_of(asked, **options)
    encoder = ResponseEncoder(head_of(asked), tools, CallIds(RUN), form, after=NO_EVENTS)
    encoder.encode(events)
    return encoder.response()


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream, which must have the form of the protocol."""
    *blocks, done, rest = stream.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    events: list[dict[str, Any]] = []
    for number, block in enumerate(blocks):
        name, data = block.split(b"\n")
        event = msgspec.json.decode(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        assert event["sequence_number"] == number
        events.append(event)
    return events


def checked(stream: bytes) -> dict[str, Any]:
    """The last event's response, after every event was checked against the official types."""
    events = parsed(stream)
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds.count("response.created") == 1
    state: Any = ResponseStreamState(input_tools=[], text_format=omit)
    for event in events:
        if event["type"] not in _FREE_CODES:
            state.handle_event(OFFICIAL[event["type"]].model_validate(event))
        check_specified(event)
    check_order(events)
    check_deltas(events)
    return events[-1]["response"]


def check_specified(event: dict[str, Any]) -> None:
    """Checks an event against Open Responses, if it specifies all items of the event."""
    kind = SPECIFIED.get(event["type"])
    items = [event["item"]] if "item" in event else event.get("response", {}).get("output", [])
    tools = event.get("response", {}).get("tools", [])
    portable = all(item["type"] in PORTABLE for item in items)
    text = event.get("response", {}).get("text") or {"format": {"type": "text"}}
    has_schema = text["format"]["type"] == "json_schema"  # the types allow no schema but null
    functions_only = all(tool["type"] == "function" for tool in tools)
    if kind is not None and portable and functions_only and not has_schema:
        kind.model_validate(event)


def check_order(events: list[dict[str, Any]]) -> None:
    """Checks that every item is added once, in the order of the output, and done once."""
    added = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
    done = [e["output_index"] for e in events if e["type"] == "response.output_item.done"]
    assert added == list(range(len(added)))
    assert sorted(done) == added


def check_deltas(events: list[dict[str, Any]]) -> None:
    """Checks that the deltas of a text or of arguments join to the value that follows them."""
    said: dict[tuple[Any, ...], str] = {}
    for event in events:
        kind, _, step = event["type"].rpartition(".")
        place = (kind, event.get("output_index"), event.get("content_index"))
        if step == "delta":
            said[place] = said.get(place, "") + event["delta"]
        elif step == "done":
            wholes = [event[name] for name in ("text", "arguments", "input") if name in event]
            assert [said.pop(place, "")] == wholes or not wholes
    assert not said, "a text without an end"


def check_body(body: bytes) -> dict[str, Any]:
    """The body, after it was checked against the official types."""
    fields = msgspec.json.decode(body)
    if fields["error"] is None:
        Response.model_validate(fields)
    items, tools = fields["output"], fields["tools"]
    portable = all(item["type"] in PORTABLE for item in items)
    if portable and all(tool["type"] == "function" for tool in tools):
        specified.ResponseResource.model_validate(fields)
    assert set(specified.ResponseResource.model_fields) <= fields.keys()
    return fields


def kinds_of(stream: bytes) -> list[str]:
    """The types of the events, without repeated deltas."""
    kinds: list[str] = []
    for event in parsed(stream):
        if not (kinds and kinds[-1] == event["type"] and event["type"].endswith(".delta")):
            kinds.append(event["type"])
    return kinds
