"""Shared by the tests of the Messages wire: runs, their streams, and the SDK's reader."""

import asyncio
import functools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx2

from windlass import AsyncClient
from windlass.events import RunEvent
from windlass.reply import Reply
from windlass.request import RequestLimits
from windlass.testing import ScriptedModel
from windlass.tool import Tool, as_tools
from windlass.wires.calls import CallIds
from windlass.wires.messages.write_events import (
    DEFAULT_FORM,
    Form,
    MessageEncoder,
    MessageHead,
    message_fields,
)

if TYPE_CHECKING:
    import anthropic

HEAD = MessageHead("msg_0123456789", "claude-test", 7)
LIMITS = RequestLimits()
CLIENT_TOOL = {
    "name": "ask_user",
    "description": "Asks the user.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
}


def lookup(city: str) -> str:
    """Looks a city up."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city}"


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in as_tools([lookup, CLIENT_TOOL])}


async def ran(script: Any, **options: Any) -> tuple[list[RunEvent], Reply]:
    """The events of a run of this script, and its reply."""
    client = AsyncClient(ScriptedModel(script), mode="native", **options)
    run = await client.start("Go.", tools=[lookup, CLIENT_TOOL])
    events = [event async for event in client.subscribe(run.id)]
    await asyncio.wait([run.task])
    reply = run.reply
    await client.aclose()
    return events, reply


class Written:
    """An answer in both forms, stream and body."""

    def __init__(self, events: list[RunEvent], reply: Reply, form: Form = DEFAULT_FORM) -> None:
        ids = CallIds("run_0123456789abcdef01234567")
        encoder = MessageEncoder(HEAD, TOOLS, ids, form)
        pieces = [encoder.begin(), *(encoder.encode([event]) for event in events)]
        self.stream = b"".join([*pieces, encoder.end(reply)])
        batched = MessageEncoder(HEAD, TOOLS, ids, form)
        assert batched.begin() + batched.encode(events) + batched.end(reply) == self.stream
        self.body = json.loads(json.dumps(message_fields(HEAD, reply, TOOLS, ids, form)))

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(sse_events(self.stream))

    @property
    def read(self) -> dict[str, Any]:
        """Returns the message that Anthropic's SDK builds from the stream."""
        return final_message(self.stream)


def sse_events(stream: bytes) -> Iterator[dict[str, Any]]:
    """Returns the data of each event. The data repeats the name of its event."""
    *blocks, rest = stream.split(b"\n\n")
    assert rest == b""
    for block in blocks:
        name, data = block.split(b"\n")
        value = json.loads(data.removeprefix(b"data: "))
        assert name == f"event: {value['type']}".encode()
        yield value


class _Answers:
    """A transport that returns the same answer to every request."""

    def __init__(self) -> None:
        self.response = httpx2.Response(200)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        return self.response


@functools.cache
def _sdk() -> "tuple[anthropic.Anthropic, _Answers]":
    import anthropic  # takes seconds

    answers = _Answers()
    transport = httpx2.Client(transport=httpx2.MockTransport(answers))
    return anthropic.Anthropic(api_key="k", http_client=transport, max_retries=0), answers


def client_reading(
    content: bytes, status: int = 200, content_type: str = "text/event-stream"
) -> "anthropic.Anthropic":
    """Returns Anthropic's SDK. Each of its requests gets this answer."""
    client, answers = _sdk()
    headers = {"content-type": content_type, "request-id": "req_1"}
    answers.response = httpx2.Response(status, headers=headers, content=content)
    return client


def final_message(stream: bytes) -> dict[str, Any]:
    client = client_reading(stream)
    with client.beta.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "Go."}]
    ) as reading:
        message = reading.get_final_message()
    return message.to_dict(exclude_unset=False, mode="json")


def without_nulls(value: Any) -> Any:
    """Returns the fields that have a value, because the SDK adds empty fields."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def check_order(events: list[dict[str, Any]]) -> None:
    """Checks the order that clients need: one start, one block after another, one end."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("message_start") == kinds.count("message_delta") == 1
    open_index, following = None, 0
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert open_index is None
                assert event["index"] == following
                open_index = following
                following += 1
            case "content_block_delta":
                assert event["index"] == open_index
            case "content_block_stop":
                assert event["index"] == open_index
                open_index = None
            case _:
                assert open_index is None
