"""A gateway with a scripted model, used over Anthropic's Messages API without a socket."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.support.asgi import Answer, post, request
from tests.support.message_answers import check_order, final_message, sse_events, without_nulls
from tests.support.serving import config_of

from windlass import tool
from windlass.content import Message
from windlass.gateway import create_app
from windlass.gateway.app import App
from windlass.gateway.config import ModelConfig
from windlass.testing import ScriptedModel

Body = dict[str, Any]
Headers = tuple[tuple[bytes, bytes], ...]

PATH = "/v1/messages"
COUNT_PATH = f"{PATH}/count_tokens"
VERSION = (b"anthropic-version", b"2023-06-01")
CONNECTOR = (b"anthropic-beta", b"mcp-client-2025-11-20")
RING: Body = {
    "name": "ring",
    "description": "Rings a bell.",
    "input_schema": {"type": "object", "properties": {"times": {"type": "integer"}}},
}


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city}"


SERVED = ModelConfig(name="m", target="scripted/model", tools=("lookup",), aliases=("claude-*",))


class MessagesGateway:
    """A gateway whose model `m` follows a script and has the server tool `lookup`."""

    def __init__(self, *script: Any, served: ModelConfig = SERVED, **settings: Any) -> None:
        self.model = ScriptedModel(list(script))
        self.app: App = create_app(
            config_of(served, **settings), models={served.name: self.model}, tools=[lookup]
        )

    async def post(self, body: Body | bytes, *headers: tuple[bytes, bytes]) -> Answer:
        return await post(self.app, body, PATH, (VERSION, *headers))

    async def get(self, path: str, *headers: tuple[bytes, bytes]) -> Answer:
        return await request(self.app, "GET", path, headers=headers)

    async def message(self, *headers: tuple[bytes, bytes], **fields: Any) -> Body:
        """The answer to a request, as one body."""
        answer = await self.post(asking(**fields), *headers)
        assert answer.status == 200, answer
        return answer.json

    async def stream(self, *headers: tuple[bytes, bytes], **fields: Any) -> bytes:
        """The answer to a request, as a stream with all its events in order."""
        answer = await self.post(asking(**fields, stream=True), *headers)
        assert answer.status == 200, answer
        check_order(list(sse_events(answer.body)))
        return answer.body

    @property
    def seen(self) -> list[Message]:
        """The conversation of the last request to the model."""
        return list(self.model.requests[-1].messages)


def asking(prompt: Any = "Go.", *, messages: Sequence[Body] = (), **fields: Any) -> Body:
    """The body of a request."""
    conversation = list(messages) or [user(prompt)]
    return {"model": "m", "max_tokens": 1000, "messages": conversation, **fields}


def user(content: Any) -> Body:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Body:
    return {"role": "assistant", "content": content}


def results(message: Body, **given: str) -> Body:
    """The user's message with a result for each call of a client's tool, by the tool's name."""
    return user(
        [
            {"type": "tool_result", "tool_use_id": block["id"], "content": given[block["name"]]}
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
    )


def kinds(message: Body) -> list[str]:
    return [block["type"] for block in message["content"]]


def texts(message: Body) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def read(stream: bytes) -> Body:
    """Returns the message that Anthropic's SDK builds from a stream, without empty fields."""
    return without_nulls(final_message(stream))


def without_ids(message: Body) -> Any:
    """Returns the message with numbers in place of ids, so that two runs can be compared."""
    known: dict[str, str] = {}

    def number(value: Any) -> Any:
        match value:
            case dict():
                return {
                    key: known.setdefault(inner, f"id {len(known)}")
                    if key in ("id", "tool_use_id")
                    else number(inner)
                    for key, inner in value.items()
                }
            case list():
                return [number(inner) for inner in value]
            case _:
                return value

    return without_nulls(number(json.loads(json.dumps(message))))


def calls_and_results(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """The calls and results in a conversation, in order."""
    facts: list[tuple[Any, ...]] = []
    for message in messages:
        facts += [(call.name, *json.loads(call.json or "{}").values()) for call in message.calls]
        facts += [("->", each.name, each.text or each.error) for each in message.responses]
    return facts
