"""The body of a Messages request: what it asks of a run, and what is wrong with it."""

import contextlib
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.message_answers import LIMITS

from windlass.content import FunctionDeclaration, Message
from windlass.model import AUTO, NONE, ModelRequest, Settings, ToolChoice
from windlass.request import PartPlace, RequestLimits, RunRequest
from windlass.testing.anthropic_rules import check_messages_request
from windlass.wires.errors import InvalidRequest
from windlass.wires.messages.read_request import betas_of, read_request
from windlass.wires.messages.write_events import Form
from windlass.wires.messages.write_request import RequestEncoder

TOOL = {
    "name": "get_weather",
    "description": "Weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
LEAST: dict[str, Any] = {
    "model": "fast",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}
PNG = {"type": "base64", "media_type": "image/png", "data": "cG5n"}


def read(betas: tuple[str, ...] = (), counting: bool = False, **fields: Any) -> RunRequest:
    body = {key: value for key, value in {**LEAST, **fields}.items() if value is not ...}
    return read_request(msgspec.json.encode(body), LIMITS, "include", betas, counting=counting)


def test_a_minimal_request() -> None:
    request = read()
    assert (request.wire, request.model, request.live) == ("messages", "fast", False)
    assert request.messages == (Message.user("Hi"),)
    assert request.settings == Settings(max_tokens=100)
    assert request.tool_choice == AUTO
    assert request.tools.read(b"", LIMITS) == ()
    assert msgspec.convert(request.answer, Form) == Form()
    assert request.size > 0


def test_settings() -> None:
    request = read(
        temperature=1, top_p=0.9, top_k=5, stop_sequences=["END"], stream=True, system="Be kind."
    )
    assert request.settings == Settings(
        temperature=1.0, top_p=0.9, top_k=5, max_tokens=100, stop=("END",)
    )
    assert request.live
    assert request.messages[0] == Message.system("Be kind.")


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "max"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "minimal"),
        ({"thinking": {"type": "enabled", "budget_tokens": 6000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 60_000}}, "high"),
        ({"thinking": {"type": "hologram"}}, None),
    ],
)
def test_thinking_is_an_effort_for_any_model_and_unchanged_for_claude(
    fields: Any, effort: str | None
) -> None:
    request = read(**fields)
    assert request.settings.reasoning_effort == effort
    assert request.extra == fields


def test_the_visible_thoughts() -> None:
    def thoughts(**thinking: Any) -> str:
        return msgspec.convert(read(thinking=thinking).answer, Form).thoughts

    assert thoughts(type="adaptive") == "full"
    assert thoughts(type="adaptive", display="omitted") == "signature"
    assert thoughts(type="disabled") == "none"


def test_server_tools_are_shown_to_clients_with_the_connector_s_beta() -> None:
    assert msgspec.convert(read(("mcp-client-2025-11-20",)).answer, Form).server_tools
    assert not msgspec.convert(read(("claude-code-20250219",)).answer, Form).server_tools


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ],
)
def test_a_structured_answer_has_only_the_last_round_s_text(fields: Any) -> None:
    request = read(**fields)
    assert request.settings.response_schema == SCHEMA
    assert msgspec.convert(request.answer, Form).all_text is False


def test_the_gateway_may_leave_out_the_text_of_earlier_rounds() -> None:
    request = read_request(msgspec.json.encode(LEAST), LIMITS, "omit")
    assert msgspec.convert(request.answer, Form).all_text is False


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, AUTO, None),
        ({"type": "none"}, NONE, None),
        ({"type": "any"}, ToolChoice("required"), None),
        ({"type": "tool", "name": "f"}, ToolChoice("required", ("f",)), None),
        ({"type": "auto", "disable_parallel_tool_use": True}, AUTO, False),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
    ],
)
def test_tool_choice(choice: Any, expected: ToolChoice, parallel: bool | None) -> None:
    request = read(tools=[TOOL], tool_choice=choice)
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


def test_a_choice_without_tools_is_left_out() -> None:
    for tools in ([], ...):
        assert read(tools=tools, tool_choice={"type": "any"}).tool_choice == AUTO


def test_tools_are_read_when_they_are_needed() -> None:
    request = read(tools=[{**TOOL, "cache_control": {}, "input_examples": [{}], "strict": True}])
    (tool,) = request.tools.read(request.tools.source, LIMITS)
    assert not tool.runnable
    assert isinstance(declaration := tool.declaration, FunctionDeclaration)
    assert (declaration.name, declaration.description) == ("get_weather", "Weather.")
    assert declaration.parameters["properties"] == {"city": {"type": "string"}}
    assert declaration.strict is True


HOSTED = [
    {"type": "bash_20250124", "name": "bash"},
    {"type": "web_search_20260209", "name": "web_search", "max_uses": 3},
    {"type": "tool_search_tool_bm25_20251119", "name": "tool_search"},
    {"type": "mcp_toolset", "mcp_server_name": "x"},
    {"type": "tool_of_the_future"},
]


def test_hosted_tools_are_skipped_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    request = read(tools=[*HOSTED, {**TOOL, "type": "custom", "defer_loading": True}])
    with caplog.at_level(logging.INFO, "windlass.wires"):
        tools = request.tools.read(request.tools.source, LIMITS)
    assert [tool.name for tool in tools] == ["get_weather"]
    (record,) = caplog.records
    assert all(tool["type"] in record.getMessage() for tool in HOSTED)


def test_requests_of_claude_code_are_accepted() -> None:
    request = read(
        ("claude-code-20250219", "per-turn-control-2026-07-01", "beta-of-the-future"),
        model="claude-opus-5-5",
        max_tokens=128_000,
        stream=True,
        thinking={"type": "adaptive", "display": "omitted"},
        output_config={"effort": "high"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        metadata={"user_id": "u"},
        system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2"},
            {
                "type": "text",
                "text": "You are Claude Code.",
                "cache_control": {"type": "ephemeral"},
            },
        ],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "say hello"}]},
            {"role": "system", "content": "Reminder.", "clear_at": "next_user_message"},
            {"role": "system", "content": [{"type": "tool_addition", "tool": {"name": "f"}}]},
        ],
        tools=[TOOL, {**TOOL, "name": "DeferredToolPlaceholder", "defer_loading": True}],
        field_of_the_future={"a": [1]},
    )
    assert [message.role for message in request.messages] == ["system", "user", "system", "system"]
    assert request.extra["field_of_the_future"] == {"a": [1]}
    assert request.extra["anthropic_beta"][0] == "claude-code-20250219"
    assert request.messages[0].text.startswith("x-anthropic-billing-header")


def test_mcp_servers_are_not_called() -> None:
    request = read(mcp_servers=[{"type": "url", "url": "https://example.com", "name": "x"}])
    assert request.extra == {}


def test_media_have_their_place_in_the_request() -> None:
    content = [
        {"type": "text", "text": "x"},
        {"type": "image", "source": PNG},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a"}},
        {"type": "document", "source": {"type": "text", "data": "x"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "hologram"},
    ]
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [content[1]]}
    request = read(
        messages=[
            {"role": "user", "content": content},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    )
    assert request.parts == (
        PartPlace("messages[0].content[1]", "image", "image"),
        PartPlace("messages[0].content[2]", "document", "file"),
        PartPlace("messages[0].content[4]", "image", "other"),
        PartPlace("messages[2].content[0].content[0]", "image", "image", True),
    )


def test_a_request_that_counts_needs_no_limit() -> None:
    assert read(max_tokens=..., counting=True).settings.max_tokens is None


def test_a_limit_of_zero_is_the_least_there_is() -> None:
    assert read(max_tokens=0).settings.max_tokens == 1


def test_betas_of_headers() -> None:
    assert betas_of(["a, b", "b,c", ""]) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"model": ...}, "model", "Field required"),
        ({"model": 5}, "model", "must be a string"),
        ({"max_tokens": ...}, "max_tokens", "Field required"),
        ({"max_tokens": "9"}, "max_tokens", "must be a whole number"),
        ({"max_tokens": -1}, "max_tokens", "at least 1"),
        ({"messages": ...}, "messages", "at least one message"),
        ({"messages": []}, "messages", "at least one message"),
        ({"messages": [{"role": "x", "content": ""}]}, "messages[0].role", "must be one of"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
        ({"system": 5}, "system", "must be a string or a list"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"stop_sequences": "x"}, "stop_sequences", "list of strings"),
        ({"stop_sequences": [1]}, "stop_sequences", "list of strings"),
        ({"stream": "yes"}, "stream", "must be true or false"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice", "with a name"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice", "must be of type"),
    ],
)
def test_a_wrong_field_is_named(fields: Any, param: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as raised:
        read(**fields)
    assert raised.value.param == param
    assert raised.value.message.startswith(param)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([5], "tools[0]"),
        ([{"input_schema": {}}], "tools[0].name"),
        ([{"name": "f"}], "tools[0].input_schema"),
        ([{**TOOL, "description": 5}], "tools[0].description"),
        ([TOOL, TOOL], "tools[1].name"),
        ([{**TOOL, "name": "not a name!"}], "tools[0].name"),
        ([{**TOOL, "input_schema": {"type": "hologram"}}], "tools[0].input_schema"),
        ({"a": 1}, "tools"),
    ],
)
def test_a_wrong_tool_is_named(tools: Any, param: str) -> None:
    request = read(tools=tools)
    with pytest.raises(InvalidRequest) as raised:
        request.tools.read(request.tools.source, LIMITS)
    assert (raised.value.param or "").startswith(param)


def test_limits() -> None:
    body = msgspec.json.encode({**LEAST, "messages": LEAST["messages"] * 3})
    with pytest.raises(InvalidRequest, match="3 messages exceed the limit of 2"):
        read_request(body, RequestLimits(max_messages=2))
    tools = msgspec.json.encode([{**TOOL, "name": f"f{n}"} for n in range(3)])
    request = read(tools=[TOOL])
    with pytest.raises(InvalidRequest, match="3 tools exceed the limit of 2"):
        request.tools.read(tools, RequestLimits(max_tools=2))


def test_a_request_reaches_claude_with_everything_that_it_had() -> None:
    """The same wire on both sides: what the gateway does not know is passed on."""
    request = read(
        thinking={"type": "adaptive", "display": "omitted"},
        output_config={"effort": "max"},
        metadata={"user_id": "u"},
        system=[{"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        tools=[TOOL],
        stop_sequences=["END"],
    )
    tools = tuple(tool.declaration for tool in request.tools.read(request.tools.source, LIMITS))
    sent = msgspec.json.decode(
        RequestEncoder("claude-opus-5-5").body(
            ModelRequest(
                request.messages,
                tools=tools,
                settings=request.settings,
                extra=request.extra,
                live=False,
            )
        )
    )
    check_messages_request(sent)
    assert sent == {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "stop_sequences": ["END"],
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "max"},
        "metadata": {"user_id": "u"},
        "system": [
            {"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        ],
        "tools": [TOOL],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    [
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "stream",
        "stop_sequences",
        "max_tokens",
        "temperature",
        "metadata",
        "container",
        "anything",
    ]
)


@given(st.dictionaries(KNOWN, values, max_size=4))
def test_any_body_is_read_or_refused(fields: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidRequest):
        request = read(**fields)
        request.tools.read(request.tools.source, LIMITS)
