"""Reading a Responses request: every field and item, and an error that names what is wrong."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.response_streams import LIMITS, RUN, request

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
)
from windlass.model import ToolChoice
from windlass.request import RequestLimits, inherited
from windlass.wires.errors import InvalidRequest
from windlass.wires.responses.item_ids import item_id, response_id
from windlass.wires.responses.messages import (
    McpApproval,
    compaction_item,
    decode_input,
    encode_message,
    input_items,
)
from windlass.wires.responses.read_request import item_references, options_of, read_request
from windlass.wires.responses.tools import read_tools
from windlass.wires.responses.write_request import RequestEncoder

FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
IMAGE = {"type": "input_image"}
PDF = "data:application/pdf;base64,cGRm"
PIXEL = "data:image/png;base64,cG5n"


def messages(*items: Any, **fields: Any) -> tuple[Message, ...]:
    return request(input=list(items), **fields).messages


def refused(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        request(**fields)
    return caught.value


def test_a_string_is_a_message_of_the_user() -> None:
    asked = request(input="Hello", stream=True, background=True)
    assert asked.messages == (Message.user("Hello"),)
    assert (asked.wire, asked.live, asked.background) == ("responses", True, True)
    assert asked.size > 0


def test_messages_of_all_roles_with_and_without_a_type() -> None:
    found = messages(
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_stale",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Yes", "annotations": []}],
        },
        {"role": "system", "content": "Now."},
    )
    assert [message.role for message in found] == ["system", "user", "assistant", "system"]
    assert found[0].extra == {"responses": {"role": "developer"}}
    assert found[2] == Message.assistant("Yes")


def test_a_turn_of_several_items_is_one_message_and_its_results_follow_in_call_order() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
    other = {**CALL, "call_id": "c2"}
    found = messages(
        {"role": "user", "content": "?"},
        reasoning,
        {"role": "assistant", "content": "Wait."},
        CALL,
        other,
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"role": "assistant", "content": "Done."},
    )
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant"]
    turn, results = found[1], found[2]
    assert turn.parts[0] == Thought("", extra={"responses": reasoning})
    assert [call.id for call in turn.calls] == ["c1", "c2"]
    assert [(each.name, each.output) for each in results.responses] == [
        ("look", "one"),
        ("look", "two"),
    ]


def test_a_late_result_is_put_beside_its_call() -> None:
    found = messages(
        CALL,
        {"role": "user", "content": "Still there?"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
    )
    assert [message.role for message in found] == ["assistant", "tool", "user"]


def test_images_and_files_come_with_their_places() -> None:
    content = [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": PIXEL, "detail": "high"},
        {"type": "input_image", "image_url": "https://x/y.png"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,cGRm",
        },
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
    ]
    asked = request(
        input=[
            {"role": "user", "content": content},
            CALL,
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [
                    {"type": "input_text", "text": "a cat"},
                    {"type": "input_image", "image_url": PIXEL},
                ],
            },
        ]
    )
    parts = asked.messages[0].parts
    assert parts[1] == InlineData(b"png", "image/png", extra={"responses": {"detail": "high"}})
    assert parts[2] == FileData("https://x/y.png")
    assert isinstance(parts[3], InlineData)
    assert parts[3].mime_type == "application/pdf"
    assert isinstance(parts[4], Opaque)
    assert parts[5] == FileData("https://x/a.pdf", "application/pdf")
    (result,) = asked.messages[2].responses
    assert result.output == "a cat"
    assert result.parts == (InlineData(b"png", "image/png"),)
    assert [(each.place, each.kind, each.in_result) for each in asked.parts] == [
        ("input[0].content[1]", "image", False),
        ("input[0].content[2]", "image", False),
        ("input[0].content[3]", "file", False),
        ("input[0].content[4]", "other", False),
        ("input[0].content[5]", "file", False),
        ("input[2].output[1]", "image", True),
    ]


def test_free_text_and_namespaces_are_functions_for_the_model() -> None:
    tools = [
        {"type": "custom", "name": "apply_patch", "description": "Patches."},
        {"type": "namespace", "name": "disk", "description": "", "tools": [FUNCTION]},
        FUNCTION,
    ]
    asked = request(
        tools=tools,
        input=[
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** x"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            {**CALL, "call_id": "c2", "namespace": "disk"},
            {"type": "function_call_output", "call_id": "c2", "output": "ok"},
        ],
        tool_choice={"type": "function", "name": "look", "namespace": "disk"},
    )
    read = asked.tools.read(asked.tools.source, LIMITS)
    assert [tool.name for tool in read] == ["apply_patch", "disk__look", "look"]
    schema: Any = read[0].declaration
    assert schema.parameters["required"] == ["input"]
    first, second = asked.messages[0].calls + asked.messages[2].calls
    assert first == FunctionCall("apply_patch", '{"input":"*** x"}', "c1")
    assert second.name == "disk__look"
    assert asked.tool_choice == ToolChoice("required", ("disk__look",))
    names = read_tools(asked.tools.source, LIMITS).names
    listed = input_items(asked.messages, response_id(RUN), names)
    assert [item["type"] for item in listed] == [
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
    ]
    assert (listed[0]["input"], listed[2]["namespace"], listed[2]["name"]) == (
        "*** x",
        "disk",
        "look",
    )
    assert len({item["id"] for item in listed}) == 4


def test_a_function_may_be_strict_and_free_text_may_not() -> None:
    named = [
        {**FUNCTION, "name": "yes", "strict": True},
        {**FUNCTION, "name": "no", "strict": False},
        {**FUNCTION, "name": "null", "strict": None},
        {"type": "custom", "name": "patch", "strict": True},
    ]
    asked = request(tools=named)
    declared: list[Any] = [
        tool.declaration for tool in asked.tools.read(asked.tools.source, LIMITS)
    ]
    assert [each.strict for each in declared] == [True, False, None, None]


def test_a_long_or_strange_name_is_one_that_providers_accept() -> None:
    tools = [
        {"type": "namespace", "name": "n" * 60, "tools": [{**FUNCTION, "name": "a.b"}, FUNCTION]}
    ]
    read = request(tools=tools).tools
    names = [tool.name for tool in read.read(read.source, LIMITS)]
    assert len(set(names)) == 2
    assert all(len(name) <= 64 for name in names)


def test_hosted_tools_are_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tools = [FUNCTION, {"type": "web_search"}, {"type": "tool_search"}, {"type": "new_thing"}]
    asked = request(tools=tools)
    with caplog.at_level(logging.INFO):
        read = asked.tools.read(asked.tools.source, LIMITS)
    assert [tool.name for tool in read] == ["look"]
    assert "new_thing, tool_search, web_search" in caplog.text
    assert len(read_tools(asked.tools.source, LIMITS).hosted) == 3


def test_mcp_servers_are_read_and_their_secrets_not_repeated() -> None:
    server = {
        "type": "mcp",
        "server_label": "sky",
        "server_url": "https://sky.example/mcp",
        "authorization": "secret-token",
        "headers": {"X-Key": "secret-key"},
        "allowed_tools": ["weather"],
        "require_approval": {"never": {"tool_names": ["weather"]}},
    }
    asked = request(tools=[server])
    (read,) = read_tools(asked.tools.source, LIMITS).mcp
    assert (read.server_label, read.authorization) == ("sky", "secret-token")
    assert read.allowed_tools is not None
    assert read.allowed_tools.tool_names == ("weather",)
    assert (read.require_approval, read.never is not None) == ("always", True)
    assert read.flat("weather") == "sky__weather"
    assert "secret" not in str(asked.answer)


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("auto", ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "look"}, ToolChoice("required", ("look",))),
        ({"type": "web_search"}, ToolChoice()),
        (
            {"type": "mcp", "server_label": "sky", "name": "weather"},
            ToolChoice("required", ("sky__weather",)),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "look"}, {"type": "web_search"}],
            },
            ToolChoice("auto", ("look",)),
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "look"}],
            },
            ToolChoice("required", ("look",), only=True),
        ),
    ],
)
def test_every_form_of_a_tool_choice(value: Any, choice: ToolChoice) -> None:
    assert request(tools=[FUNCTION], tool_choice=value).tool_choice == choice


def test_settings_and_options() -> None:
    schema = {"type": "object", "properties": {}}
    asked = request(
        temperature=0.5,
        top_p=1,
        max_output_tokens=7,
        reasoning={"effort": "high", "summary": "auto"},
        text={
            "format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True},
            "verbosity": "low",
        },
        include=["reasoning.encrypted_content", "message.output_text.logprobs"],
        top_logprobs=2,
        store=False,
        metadata={"a": "b"},
        max_tool_calls=3,
        prompt_cache_key="k",
        server_tools="hidden",
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
        client_metadata={"x": "y"},
        surprise=1,
    )
    settings = asked.settings
    assert (settings.temperature, settings.max_tokens) == (0.5, 7)
    assert (settings.reasoning_effort, settings.logprobs) == ("high", True)
    assert (settings.response_schema, settings.response_name) == (schema, "n")
    assert settings.response_strict is True
    options = options_of(asked.answer)
    assert options.encrypted_reasoning
    assert (options.store, options.max_tool_calls) == (False, 3)
    assert (options.server_tools, options.compact_threshold) == ("hidden", 1000)
    assert asked.extra == {
        "surprise": 1,
        "prompt_cache_key": "k",
        "text": {"verbosity": "low"},
        "reasoning": {"summary": "auto"},
    }
    stored = msgspec.json.decode(msgspec.json.encode(asked.answer))
    assert options_of(stored) == options


def test_instructions_are_a_system_message_that_is_not_inherited() -> None:
    asked = request(instructions="Be brief.", input=[{"role": "system", "content": "Stay."}])
    assert [message.text for message in asked.messages] == ["Be brief.", "Stay."]
    assert [each.text for each in inherited(asked.messages)] == ["Stay."]
    assert [item["content"][0]["text"] for item in input_items(asked.messages, "resp_1")] == [
        "Stay."
    ]


def test_a_continued_request_may_answer_a_stored_call() -> None:
    result = {"type": "function_call_output", "call_id": "c9", "output": "one"}
    continued: list[dict[str, Any]] = [
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}},
    ]
    for field in continued:
        (message,) = request(input=[result], **field).messages
        assert message.responses[0] == FunctionResponse("", {"output": "one"}, "c9")
    assert options_of(request(conversation="conv_1").answer).conversation == "conv_1"


def test_approvals_are_kept_apart() -> None:
    asked = request(
        previous_response_id="resp_1",
        input=[
            {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "server_label": "s"},
            {
                "type": "mcp_approval_response",
                "approval_request_id": "mcpr_1",
                "approve": False,
                "reason": "no",
            },
        ],
    )
    assert asked.messages == ()
    assert options_of(asked.answer).approvals == (McpApproval("mcpr_1", False, "no", "input[1]"),)


def test_a_call_that_the_server_ran_belongs_to_the_turn_of_the_calls_around_it() -> None:
    ran = {"type": "mcp_call", "id": "mcp_1", "name": "weather", "arguments": "{}", "output": "22"}
    found = messages(
        {"role": "user", "content": "?"},
        CALL,
        ran,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c2", "output": "second"},
        {"type": "function_call_output", "call_id": "c1", "output": "first"},
        {**CALL, "call_id": "c3"},
        {"type": "function_call_output", "call_id": "c3", "output": "third"},
    )
    assert [[part.id for part in message.calls] for message in found if message.calls] == [
        ["c1", "mcp_1", "c2"],
        ["c3"],
    ]
    assert [part.text for message in found for part in message.responses] == [
        "first",
        "22",
        "second",
        "third",
    ]


@pytest.mark.parametrize(
    ("output_id", "turns"),
    [
        ({}, [["c1", "c2"], ["c3"]]),
        ({"id": item_id("function_call_output", response_id(RUN), 0)}, [["c1", "c2", "c3"]]),
    ],
    ids=["of the client", "of the server"],
)
def test_a_result_of_the_client_ends_its_turn_and_one_of_the_server_does_not(
    output_id: dict[str, str], turns: list[list[str]]
) -> None:
    def output(call_id: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call_id, "output": call_id}

    c2, c3 = ({**CALL, "call_id": each} for each in ("c2", "c3"))
    found = messages(CALL, c2, {**output("c1"), **output_id}, c3, output("c2"), output("c3"))
    assert [[call.id for call in message.calls] for message in found if message.calls] == turns


def test_calls_that_the_server_ran_are_read_as_calls_and_results() -> None:
    ran: dict[str, Any] = {"type": "mcp_call", "id": "mcp_1", "server_label": "sky"}
    ran |= {"name": "weather", "arguments": '{"city":"Rome"}', "output": "22"}
    failed = {**ran, "id": "mcp_2", "server_label": "windlass", "output": None}
    failed["error"] = {"type": "mcp_tool_execution_error", "content": [{"text": "down"}]}
    found = messages({"role": "user", "content": "?"}, ran, failed, {"type": "mcp_list_tools"})
    assert [message.role for message in found] == ["user", "assistant", "tool", "assistant", "tool"]
    assert found[1].calls[0] == FunctionCall("sky__weather", '{"city":"Rome"}', "mcp_1")
    assert found[2].responses[0].output == "22"
    assert found[3].calls[0].name == "weather"
    assert found[4].responses[0].error == "down"


def test_a_stored_item_is_found_by_its_reference() -> None:
    own = item_id("message", response_id(RUN), 0)
    body = msgspec.json.encode(
        {
            "model": "m",
            "input": [{"type": "item_reference", "id": own}, {"role": "user", "content": "?"}],
        }
    )
    assert item_references(body, LIMITS) == (own,)
    stored = {own: {"type": "message", "role": "assistant", "content": "Earlier."}}
    asked = read_request(body, LIMITS, stored)
    assert [message.text for message in asked.messages] == ["Earlier.", "?"]
    with pytest.raises(InvalidRequest, match=r"input\[0\]\.id: Item with id .* not found"):
        read_request(body, LIMITS)


@pytest.mark.parametrize(
    "kind",
    [
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "web_search_call",
    ],
)
def test_an_item_of_a_tool_of_openai_is_kept_as_it_is(kind: str) -> None:
    item = {"type": kind, "id": "i_1", "call_id": "c_1", "status": "completed"}
    parts = [part for each in decode_input([item]).messages for part in each.parts]
    assert parts == [Opaque("responses", item)]


def test_a_response_is_stored_unless_the_request_says_otherwise() -> None:
    assert options_of(request().answer).store
    assert not options_of(request(store=False).answer).store


def test_a_compacted_conversation_is_restored() -> None:
    said = (Message.user("long"), Message.assistant("story"))
    item = compaction_item(response_id(RUN), said)
    assert decode_input([item, {"role": "user", "content": "?"}]).messages == (
        *said,
        Message.user("?"),
    )
    foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
    assert decode_input([foreign]).messages[0].parts == (Opaque("responses", foreign),)
    with pytest.raises(InvalidRequest, match=r"input\[0\]\.encrypted_content"):
        decode_input([{**item, "encrypted_content": "windlass:1:AAAA"}])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ""}, "model"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": "surprise"}]}, "input[0].type"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "input[0].content[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input[0].content[0].text",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].image_url",
        ),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_image", "image_url": "data:image/png;base64,%"}
                        ],
                    }
                ]
            },
            "input[0].content[0].image_url",
        ),
        ({"input": [{**CALL, "arguments": {}}]}, "input[0].arguments"),
        ({"input": [{**CALL, "call_id": ""}]}, "input[0].call_id"),
        ({"input": [CALL, {"type": "function_call_output", "call_id": "c1"}]}, "input[1].output"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
            "input[0].call_id",
        ),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "x"}]},
            "input[0].approve",
        ),
        ({"input": "x", "previous_response_id": "a", "conversation": "b"}, "previous_response_id"),
        ({"input": "x", "conversation": {}}, "conversation"),
        ({"input": "x", "tools": {}}, "tools"),
        ({"input": "x", "tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": "x", "tools": [{"name": "x"}]}, "tools[0].type"),
        ({"input": "x", "tools": [FUNCTION, FUNCTION]}, "tools[1].name"),
        (
            {"input": "x", "tools": [{**FUNCTION, "parameters": {"properties": 3}}]},
            "tools[0].parameters.properties",
        ),
        ({"input": "x", "tools": [{"type": "mcp"}]}, "tools[0].server_label"),
        ({"input": "x", "tools": [{"type": "mcp", "server_label": "s"}]}, "tools[0]"),
        ({"input": "x", "tool_choice": 3}, "tool_choice"),
        ({"input": "x", "tool_choice": {"type": "allowed_tools"}}, "tool_choice.mode"),
        ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "max_tool_calls": 0}, "max_tool_calls"),
        ({"input": "x", "metadata": {"a": 1}}, "metadata"),
        ({"input": "x", "metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"input": "x", "include": [1]}, "include"),
        ({"input": "x", "server_tools": "loud"}, "server_tools"),
        ({"input": "x", "stream": "yes"}, "stream"),
    ],
)
def test_an_error_names_the_field(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert error.param == param
    assert error.message.startswith(param)


def test_too_many_items_and_tools_are_refused() -> None:
    limits = RequestLimits(max_messages=1, max_tools=1)
    two = [{"role": "user", "content": "x"}] * 2
    with pytest.raises(InvalidRequest, match="input: 2 items exceed the limit of 1"):
        read_request(msgspec.json.encode({"model": "m", "input": two}), limits)
    tools = [FUNCTION, {**FUNCTION, "name": "b"}]
    with pytest.raises(InvalidRequest, match="tools: 2 tools exceed the limit of 1"):
        read_request(msgspec.json.encode({"model": "m", "input": "x", "tools": tools}), limits)


# Round trips.

_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_said = _words.map(Text)
_media = st.sampled_from(
    [InlineData(b"png", "image/png"), InlineData(b"x", "audio/mp3"), FileData("https://x/y.png")]
)
_reasoning = _words.map(
    lambda text: Thought(
        text,
        extra={
            "responses": {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": "gAAA",
            }
        },
    )
)
_results = st.sampled_from([(), (InlineData(b"png", "image/png"),)])
_user = st.lists(st.one_of(_said, _media), min_size=1, max_size=3).map(
    lambda parts: Message("user", tuple(parts))
)
_system = _words.map(Message.system)


@st.composite
def _turns(draw: st.DrawFn) -> list[Message]:
    """A turn of the model with its results."""
    count = draw(st.integers(0, 3))
    number = draw(st.integers(0, 10**9))
    made = [FunctionCall("f", '{"a":1}', f"c{number}_{n}") for n in range(count)]
    before = draw(st.lists(_reasoning, max_size=1))
    text = draw(st.lists(_said, max_size=1 if made else 2, min_size=0 if made else 1))
    turn = Message("assistant", (*before, *text, *made))
    results = [
        FunctionResponse("f", {"output": draw(_words)}, call.id, draw(_results)) for call in made
    ]
    return [turn, *([Message.tool(results)] if results else []), Message.user("next")]


_messages = st.one_of(_user, _system).map(lambda message: [message])


@given(st.lists(st.one_of(_messages, _turns()), max_size=5))
def test_messages_survive_the_wire(groups: list[list[Message]]) -> None:
    said = [message for group in groups for message in group]
    items = [item for message in said for item in encode_message(message)]
    decoded = decode_input(msgspec.json.decode(msgspec.json.encode(items)))
    assert list(decoded.messages) == said


@given(st.lists(_turns(), min_size=1, max_size=3))
def test_the_service_reads_exactly_what_was_sent(groups: list[list[Message]]) -> None:
    from windlass.model import ModelRequest
    from windlass.testing.responses_rules import check_responses_request

    said = [Message.user("?"), *(message for group in groups for message in group)]
    body = RequestEncoder("m", official=True).body(ModelRequest(said))
    check_responses_request(msgspec.json.decode(body), {})
