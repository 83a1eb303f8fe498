"""Requests to a chat-completions server, checked against the official SDK's own types."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter, ValidationError
from tests.support.model_wires import HELLO, ONE_BODY, WEATHER

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    Text,
    Thought,
)
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.chat import messages as encode
from windlass.wires.chat import write_request as wire

SDK: dict[bool, TypeAdapter[Any]] = {
    False: TypeAdapter(CompletionCreateParamsNonStreaming),
    True: TypeAdapter(CompletionCreateParamsStreaming),
}


def validated(value: Any) -> Any:
    """The value with its `Iterable`s read: pydantic validates those only then."""
    if isinstance(value, dict):
        return {key: validated(item) for key, item in value.items()}
    return [validated(item) for item in value] if hasattr(value, "__next__") else value


def sent(request: ModelRequest, *, official: bool = True) -> dict[str, Any]:
    """The body, which the SDK's types must read to its last field."""
    body = json.loads(wire.RequestEncoder("gpt-5", official=official).body(request))
    if official:
        assert validated(SDK[request.live].validate_python(body)) == body
    return body


def with_tools(choice: ToolChoice = ToolChoice(), **more: Any) -> ModelRequest:  # noqa: B008
    return ModelRequest(HELLO.messages, (WEATHER,), choice, **more)


CONVERSATION = (
    Message.system("Be brief."),
    Message.user("Look:", InlineData(b"x", "image/png"), FileData("https://x/y.png")),
    Message.user(InlineData(b"x", "audio/wav"), InlineData(b"x", "application/pdf")),
    Message.assistant(
        Thought("hm"),
        "I look.",
        FunctionCall("get_weather", '{"city": "Paris"}', "c1"),
        FunctionCall("get_weather", "", "c2"),
    ),
    Message.tool(
        [
            FunctionResponse("get_weather", {"output": {"sky": "clear"}}, "c1"),
            FunctionResponse(
                "get_weather", {"error": "no"}, "c2", (InlineData(b"x", "image/png"),)
            ),
        ]
    ),
    Message.assistant(Text("It is", "signed"), Text(" clear.")),
    Message.user("Thanks"),
)


def test_a_whole_conversation_is_what_the_sdk_would_send() -> None:
    body = sent(ModelRequest(CONVERSATION, (WEATHER,)))
    roles = [message["role"] for message in body["messages"]]
    expected = ["system", "user", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert roles == expected


def test_a_live_request_asks_for_a_stream_with_usage() -> None:
    body = sent(HELLO)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_a_request_that_is_not_live_asks_for_one_body() -> None:
    assert sent(ONE_BODY) == {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("required", ("a",)), {"type": "function", "function": {"name": "a"}}),
        (
            ToolChoice("required", ("a", "b")),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "a"}},
                        {"type": "function", "function": {"name": "b"}},
                    ],
                },
            },
        ),
        (
            ToolChoice("auto", ("a",)),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "a"}}],
                },
            },
        ),
    ],
)
def test_every_tool_choice(choice: ToolChoice, expected: Any) -> None:
    assert sent(with_tools(choice)).get("tool_choice") == expected


def test_tools_are_declared_as_functions() -> None:
    (tool,) = sent(with_tools())["tools"]
    assert tool == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather.",
            "parameters": WEATHER.parameters,
        },
    }


def test_without_tools_the_tool_fields_are_absent() -> None:
    request = ModelRequest(HELLO.messages, (), ToolChoice("required"), parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & sent(request).keys()


def test_google_search_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "windlass.models"):
        body = sent(ModelRequest(HELLO.messages, (GoogleSearch(),)))
    assert "tools" not in body
    assert "GoogleSearch" in caplog.text
    both = sent(ModelRequest(HELLO.messages, (GoogleSearch(), WEATHER)))
    assert [tool["function"]["name"] for tool in both["tools"]] == ["get_weather"]


@pytest.mark.parametrize("parallel", [True, False, None])
def test_parallel_calls_are_mentioned_only_when_decided(parallel: bool | None) -> None:
    assert sent(with_tools(parallel_tool_calls=parallel)).get("parallel_tool_calls") is parallel


SETTINGS = Settings(
    temperature=0.0, top_p=0.5, top_k=7, max_tokens=100, stop=("a", "b"), seed=0, response_schema={}
)


def test_settings_for_openai_itself() -> None:
    body = sent(ModelRequest(HELLO.messages, settings=SETTINGS))
    assert {key: body[key] for key in ("temperature", "top_p", "stop", "seed")} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ["a", "b"],
        "seed": 0,
    }
    assert body["max_completion_tokens"] == 100
    assert body["response_format"] == {"type": "json_object"}
    assert not {"max_tokens", "top_k"} & body.keys()


def test_settings_for_other_servers() -> None:
    body = sent(ModelRequest(HELLO.messages, settings=SETTINGS), official=False)
    assert (body["max_tokens"], body["top_k"]) == (100, 7)
    assert "max_completion_tokens" not in body


def test_a_response_schema_gets_a_name() -> None:
    schema = {"title": "My answer!", "type": "object", "properties": {"a": {"type": "string"}}}
    body = sent(ModelRequest(HELLO.messages, settings=Settings(response_schema=schema)))
    assert body["response_format"]["json_schema"] == {"name": "My_answer_", "schema": schema}


def test_extra_fields_are_merged_last() -> None:
    extra = {
        "temperature": 1,
        "reasoning_effort": "low",
        "stream_options": {"include_obfuscation": False},
        "seed": None,
    }
    settings = Settings(temperature=0.5, seed=3)
    body = sent(ModelRequest(HELLO.messages, settings=settings, extra=extra))
    assert (body["temperature"], body["reasoning_effort"]) == (1, "low")
    assert body["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert "seed" not in body


def test_fields_that_came_from_the_server_go_back_to_it() -> None:
    message = Message("assistant", (Text("Hi"),), {"openai": {"reasoning_content": "Hm"}})
    body = sent(ModelRequest((message,)), official=False)
    assert body["messages"] == [{"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}]


def test_fifty_rounds_encode_every_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Message] = []
    real = encode.encode_message_json

    def counted(message: Message) -> bytes:
        encoded.append(message)
        return real(message)

    declared: list[FunctionDeclaration] = []
    monkeypatch.setattr(wire, "encode_message_json", counted)
    encoder = wire.RequestEncoder("m", official=False)
    messages, tools = [Message.user("go")], (WEATHER,)
    monkeypatch.setattr(
        encoder._tools, "_make", lambda key: declared.extend(key) or real_tools(key)
    )
    real_tools = wire.encode_tools
    for round_number in range(50):
        body = encoder.body(ModelRequest(messages, tools, live=False))
        assert len(json.loads(body)["messages"]) == len(messages)
        call = FunctionCall("get_weather", "{}", f"c{round_number}")
        messages.append(Message.assistant(call))
        messages.append(Message.tool([FunctionResponse("get_weather", {"output": 1}, call.id)]))
    assert len(encoded) == len(messages) - 2
    assert declared == [WEATHER]


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(texts, texts, st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3))
def test_any_text_makes_valid_json(said: str, name: str, output: dict[str, Any]) -> None:
    messages = (
        Message.user(said),
        Message.assistant(FunctionCall(name, said, said)),
        Message.tool([FunctionResponse(name, {"output": output}, said)]),
    )
    body = sent(ModelRequest(messages), official=False)
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == (said or "{}")
    assert json.loads(body["messages"][2]["content"]) == output


@pytest.mark.parametrize(
    "extra",
    [
        {"top_k": 3},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "u"}]}]},
        {"tools": [{"type": "function"}]},
    ],
)
def test_the_comparison_with_the_sdk_detects_differences(extra: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, ValidationError)):
        sent(ModelRequest(HELLO.messages, extra=extra))
