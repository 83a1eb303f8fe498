"""What OpenAI refuses, the fake refuses, in the same shape and words."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from windlass.testing import FakeOpenAI

USER = {"role": "user", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "f"}}


def asked(*ids: str, arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    made = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def answered(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
ORPHAN = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"

REFUSED: list[tuple[Any, str, str | None]] = [
    ([], "could not parse the JSON body", None),
    ({"messages": [USER]}, "you must provide a model parameter", None),
    ({"model": "m"}, "Missing required parameter: 'messages'.", "missing_required_parameter"),
    ({"model": "m", "messages": "hi"}, "expected an array of objects", "invalid_type"),
    ({"model": "m", "messages": []}, "Invalid 'messages': empty array", "empty_array"),
    ({"model": "m", "messages": ["hi"]}, "Invalid type for 'messages[0]'", "invalid_type"),
    (
        {"model": "m", "messages": [{**USER, "role": "bot"}]},
        "Invalid value: 'bot'",
        "invalid_value",
    ),
    ({"model": "m", "messages": [{"role": "user"}]}, "expected a string, got null", None),
    (
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "picture"}]}]},
        "Invalid value: 'picture'",
        "invalid_value",
    ),
    ({"model": "m", "messages": [USER, asked("1")]}, UNANSWERED + "1", None),
    ({"model": "m", "messages": [USER, asked("1"), USER]}, UNANSWERED + "1", None),
    (
        {"model": "m", "messages": [USER, asked("1", "2", "3"), answered("2"), USER]},
        UNANSWERED + "1, 3",
        None,
    ),
    ({"model": "m", "messages": [USER, answered("1")]}, ORPHAN, None),
    ({"model": "m", "messages": [USER, asked("1"), answered("2")]}, ORPHAN, None),
    (
        {"model": "m", "messages": [USER, asked("1"), answered("1"), answered("1")]},
        ORPHAN,
        None,
    ),
    (
        {"model": "m", "messages": [USER, asked("1"), {"role": "tool", "content": "x"}]},
        "Missing parameter 'tool_call_id'",
        None,
    ),
    (
        {"model": "m", "messages": [USER, asked("1", arguments={}), answered("1")]},
        "Invalid type for 'messages[1].tool_calls[0].function.arguments'",
        "invalid_type",
    ),
    (
        {"model": "m", "messages": [USER, {"role": "assistant", "tool_calls": [{}]}]},
        "Missing required parameter: 'messages[1].tool_calls[0]'",
        "missing_required_parameter",
    ),
    (
        {"model": "m", "messages": [USER], "tools": []},
        "Invalid 'tools': empty array",
        "empty_array",
    ),
    (
        {"model": "m", "messages": [USER], "tools": [{"type": "function"}]},
        "Missing required parameter: 'tools[0].function'",
        "missing_required_parameter",
    ),
    (
        {"model": "m", "messages": [USER], "tools": [named("get weather")]},
        "Invalid 'tools[0].function.name': string does not match pattern",
        "invalid_value",
    ),
    (
        {"model": "m", "messages": [USER], "tools": [named("f" * 65)]},
        "string too long",
        "string_above_max_length",
    ),
    (
        {"model": "m", "messages": [USER], "tool_choice": "auto"},
        "'tool_choice' is only allowed when 'tools' are specified",
        None,
    ),
    (
        {"model": "m", "messages": [USER], "parallel_tool_calls": False},
        "'parallel_tool_calls' is only allowed when 'tools' are specified",
        None,
    ),
    (
        {"model": "m", "messages": [USER], "tools": [TOOL], "tool_choice": named("g")},
        "function 'g' is not in 'tools'",
        None,
    ),
    (
        {"model": "m", "messages": [USER], "tools": [TOOL], "tool_choice": "f"},
        "Invalid value: 'f'. Supported values are: 'none', 'auto', and 'required'.",
        "invalid_value",
    ),
    (
        {"model": "m", "messages": [USER], "stream_options": {"include_usage": True}},
        "only allowed when 'stream' is enabled",
        None,
    ),
]

TAKEN: list[dict[str, Any]] = [
    {"messages": [{"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, USER]},
    {"messages": [USER, asked("1", "2"), answered("2"), answered("1"), USER]},
    {"messages": [USER, asked("1"), answered("1"), asked("1"), answered("1")]},
    {"messages": [USER], "tools": [TOOL], "tool_choice": named("f")},
    {"messages": [USER], "tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": True},
    {"messages": [USER], "tools": [{"type": "custom", "custom": {"name": "c"}}]},
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                ],
            }
        ]
    },
    {"messages": [USER], "some_servers_own_field": 1},
]


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    with (
        FakeOpenAI("Hi") as fake,
        OpenAI(base_url=fake.base_url, api_key="k", max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize(("body", "message", "code"), REFUSED)
def test_it_is_refused(client: OpenAI, body: Any, message: str, code: str | None):
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/chat/completions", body=body, cast_to=object)
    error: Any = caught.value.body
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"
    assert caught.value.code == code


@pytest.mark.parametrize("body", TAKEN)
def test_it_is_accepted(client: OpenAI, body: dict[str, Any]):
    assert client.post("/chat/completions", body={"model": "m", **body}, cast_to=object)
