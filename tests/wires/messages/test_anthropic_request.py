"""A model request as the body of a Messages request."""

from typing import Any

import msgspec
import pytest
from tests.support.model_wires import WEATHER

from windlass.content import (
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    Message,
    ProviderTool,
    Text,
    Thought,
)
from windlass.errors import ConfigError
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.testing.anthropic_rules import check_messages_request
from windlass.wires.messages.write_request import RequestEncoder, enforced_schema, traits_of

OTHER = FunctionDeclaration("other", "", {"type": "object", "properties": {}})
HELLO = (Message.user("Hello"),)
NEW, OLD = "claude-opus-5-5", "claude-sonnet-4-5-20250929"


def body(request: ModelRequest, model: str = NEW, **options: Any) -> dict[str, Any]:
    encoded = msgspec.json.decode(RequestEncoder(model, **options).body(request))
    return check_messages_request(encoded)


def asked(messages: Any = HELLO, model: str = NEW, caching: bool = False, **fields: Any) -> Any:
    settings = Settings(**fields.pop("settings", {}))
    return body(ModelRequest(messages, settings=settings, **fields), model, caching=caching)


def test_a_minimal_request() -> None:
    assert asked() == {
        "model": NEW,
        "max_tokens": 32_000,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    assert "stream" not in asked(live=False)


def test_settings_have_anthropic_s_names() -> None:
    settings = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 100,
        "stop": ("END",),
        "seed": 7,
    }
    sent = asked(model=OLD, settings=settings)
    assert {name: sent[name] for name in ("temperature", "top_p", "top_k", "max_tokens")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "max_tokens": 100,
    }
    assert sent["stop_sequences"] == ["END"]
    assert "seed" not in sent


def test_models_without_sampling_settings_get_none() -> None:
    sent = asked(settings={"temperature": 0.5, "top_k": 3})
    assert not {"temperature", "top_k"} & sent.keys()


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-opus-20240229", 4096),
        ("claude-3-5-haiku-latest", 8192),
        ("claude-3-7-sonnet-20250219", 32_000),
        ("claude-sonnet-4-20250514", 32_000),
        ("claude-fable-5-2", 32_000),
        ("deepseek-chat", 8192),
    ],
)
def test_the_required_limit_fits_the_model(model: str, limit: int) -> None:
    assert asked(model=model)["max_tokens"] == limit


def test_the_traits_of_models() -> None:
    assert traits_of("us.anthropic.claude-opus-4-6-v1").thinking == "adaptive"
    assert traits_of("claude-mythos-preview").thinking == "adaptive"
    assert traits_of("claude-haiku-4-5").thinking == "budget"
    assert traits_of("claude-3-5-sonnet-20241022").thinking == "none"
    assert traits_of("kimi-k2").thinking == "none"
    assert traits_of("claude-opus-4-6").sampling
    assert not traits_of("claude-opus-4-8").sampling
    assert traits_of("claude-opus-4-8").system_turns
    assert not traits_of("claude-opus-4-7").system_turns


def test_leading_system_messages_are_the_system_prompt() -> None:
    sent = asked((Message.system("a"), Message.system("b"), *HELLO))
    assert [block["text"] for block in sent["system"]] == ["a", "b"]
    assert [message["role"] for message in sent["messages"]] == ["user"]


def test_a_later_system_message_keeps_its_place_if_the_model_knows_the_role() -> None:
    messages = (*HELLO, Message.system("Now be brief."))
    assert [each["role"] for each in asked(messages)["messages"]] == ["user", "system"]
    old = asked(messages, OLD)
    assert old["system"][0]["text"] == "Now be brief."
    assert [each["role"] for each in old["messages"]] == ["user"]


def test_adjacent_system_turns_and_fields_of_messages_are_kept() -> None:
    cleared = Message("system", (Text("b"),), {"anthropic": {"clear_at": "next_user_message"}})
    messages = (*HELLO, Message.system("a"), cleared, Message.system("c"), Message.user("d"))
    assert asked(messages)["messages"][1:] == [
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {
            "role": "system",
            "content": [{"type": "text", "text": "b"}],
            "clear_at": "next_user_message",
        },
        {"role": "system", "content": [{"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "text", "text": "d"}]},
    ]


def test_adjacent_messages_of_a_role_are_one_turn_with_results_first() -> None:
    messages = (
        *HELLO,
        Message.assistant(FunctionCall("f", "{}", "a"), FunctionCall("f", "{}", "b")),
        Message.tool([FunctionResponse("f", {"output": 1}, "a")]),
        Message.user("And?"),
        Message.tool([FunctionResponse("f", {"output": 2}, "b")]),
    )
    *_, last = asked(messages)["messages"]
    kinds = [block["type"] for block in last["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


def test_tools_and_their_choice() -> None:
    def choice(**fields: Any) -> Any:
        return asked(tools=(WEATHER, OTHER), **fields).get("tool_choice")

    assert asked(tools=(WEATHER,))["tools"] == [
        {
            "name": "get_weather",
            "description": "Current weather.",
            "input_schema": WEATHER.parameters,
        }
    ]
    assert choice() is None
    assert choice(tool_choice=ToolChoice("none")) == {"type": "none"}
    assert choice(tool_choice=ToolChoice("required")) == {"type": "any"}
    named = ToolChoice("required", ("other",))
    assert choice(tool_choice=named) == {"type": "tool", "name": "other"}
    assert choice(parallel_tool_calls=False) == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }
    assert choice(tool_choice=ToolChoice("required"), parallel_tool_calls=False) == {
        "type": "any",
        "disable_parallel_tool_use": True,
    }
    assert choice(parallel_tool_calls=True) is None


def test_a_choice_among_some_tools_offers_only_those() -> None:
    third = FunctionDeclaration("third")
    modes: Any = (("auto", None), ("required", {"type": "any"}))
    for mode, expected in modes:
        choice = ToolChoice(mode, ("other", "third"))
        sent = asked(tools=(WEATHER, OTHER, third), tool_choice=choice)
        assert [tool["name"] for tool in sent["tools"]] == ["other", "third"]
        assert sent.get("tool_choice") == expected


def test_without_tools_no_choice_is_sent() -> None:
    assert "tool_choice" not in asked(tool_choice=ToolChoice("required"))
    assert "tools" not in asked(tools=(GoogleSearch(),))


def test_tools_that_anthropic_runs_are_sent_unchanged() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    other = ProviderTool("responses", {"type": "web_search"})
    sent = asked(tools=(WEATHER, ProviderTool("anthropic", search), other))
    assert [tool["name"] for tool in sent["tools"]] == ["get_weather", "web_search"]
    assert sent["tools"][1] == search


def test_fields_that_we_do_not_know_are_sent_unchanged() -> None:
    assert asked(extra={"metadata": {"user_id": "u"}})["metadata"] == {"user_id": "u"}


def test_betas_are_not_in_the_body() -> None:
    assert "anthropic_beta" not in asked(extra={"anthropic_beta": ["a"]})


EFFORT: Any = {"reasoning_effort": "high"}


def test_effort_of_models_that_decide_themselves_how_much_they_think() -> None:
    sent = asked(settings=EFFORT)
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["output_config"] == {"effort": "high"}
    assert asked(settings={"reasoning_effort": "minimal"})["output_config"] == {"effort": "low"}
    assert asked(settings={"reasoning_effort": "none"})["thinking"] == {"type": "disabled"}


def old(**fields: Any) -> dict[str, Any]:
    request = ModelRequest(fields.pop("messages", HELLO), **fields)
    return msgspec.json.decode(RequestEncoder(OLD, caching=False).body(request))


def test_effort_of_models_that_take_a_budget() -> None:
    sent = old(settings=Settings(**EFFORT, temperature=0.5))
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 24_576}
    assert sent["max_tokens"] > 24_576
    assert "temperature" not in sent
    assert "thinking" not in old(settings=Settings(reasoning_effort="none"))
    limited = old(settings=Settings(**EFFORT, max_tokens=4096))
    assert limited["thinking"]["budget_tokens"] == 3072
    assert "thinking" not in old(settings=Settings(**EFFORT, max_tokens=1500))


def test_a_forced_call_and_thinking_exclude_each_other() -> None:
    forced: Any = {"tools": (WEATHER,), "tool_choice": ToolChoice("required")}
    assert "thinking" not in asked(settings=EFFORT, **forced)
    assert "thinking" not in old(settings=Settings(**EFFORT), **forced)


def test_calls_without_thoughts_are_answered_without_a_budget() -> None:
    result = Message.tool([FunctionResponse("f", {"output": 1}, "a")])
    plain = (*HELLO, Message.assistant(FunctionCall("f", "{}", "a")), result)
    assert "thinking" not in old(messages=plain, settings=Settings(**EFFORT))
    thought = Thought("x", extra={"anthropic": {"signature": "s"}})
    signed = (*HELLO, Message.assistant(thought, FunctionCall("f", "{}", "a")), result)
    assert "thinking" in old(messages=signed, settings=Settings(**EFFORT))
    assert "thinking" in old(messages=(*plain, Message.user("x")), settings=Settings(**EFFORT))


def test_the_caller_s_own_thinking_replaces_ours() -> None:
    extra = {"thinking": {"type": "adaptive", "display": "omitted"}}
    assert asked(settings=EFFORT, extra=extra)["thinking"] == extra["thinking"]


SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "description": "In years."},
        "day": {"type": "string", "format": "date"},
        "code": {"type": "string", "pattern": "^a"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "pet": {"oneOf": [{"$ref": "#/$defs/Pet"}, {"type": "null"}]},
    },
    "required": ["age"],
    "$defs": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_a_schema_is_the_format_of_the_answer() -> None:
    sent = asked(settings={"response_schema": SCHEMA, **EFFORT})
    assert sent["output_config"]["effort"] == "high"
    form = sent["output_config"]["format"]
    assert form["type"] == "json_schema"
    schema = form["schema"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Pet"]["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["age"] == {
        "type": "integer",
        "description": "In years.\n\n{minimum: 0}",
    }
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["code"]["description"] == "{pattern: ^a}"
    assert properties["tags"]["minItems"] == 1
    assert "maxItems" in properties["tags"]["description"]
    assert properties["pet"]["anyOf"][0] == {"$ref": "#/$defs/Pet"}


def test_the_schema_is_one_that_the_sdk_would_send() -> None:
    from anthropic import transform_schema

    theirs: Any = transform_schema(SCHEMA)
    ours = enforced_schema(SCHEMA)
    assert ours["properties"]["age"] == theirs["properties"]["age"]
    assert ours["properties"]["day"] == theirs["properties"]["day"]
    assert ours["properties"]["pet"] == theirs["properties"]["pet"]
    assert ours["$defs"] == theirs["$defs"]
    assert ours.keys() == theirs.keys()


def test_every_object_of_a_schema_is_closed() -> None:
    schema = {"properties": {"empty": {"type": "object"}, "text": {"type": "string"}}}
    sent = enforced_schema(schema)
    assert sent["additionalProperties"] is False
    assert sent["properties"]["empty"]["additionalProperties"] is False
    assert "additionalProperties" not in sent["properties"]["text"]


def test_any_json_object_is_asked_for_in_the_prompt() -> None:
    sent = asked((Message.system("Be kind."), *HELLO), settings={"response_schema": {}})
    assert [block["text"] for block in sent["system"]] == [
        "Be kind.",
        "Answer with one JSON object and nothing else.",
    ]
    assert "output_config" not in sent


EPHEMERAL = {"type": "ephemeral"}
TALK = (
    Message.system("a", "b"),
    Message.user("one"),
    Message.assistant("two"),
    Message.user("three"),
    Message.assistant("four"),
    Message.user("five", "six"),
)


def marks(value: Any, path: str = "") -> list[str]:
    """Where `cache_control` is in the body."""
    if isinstance(value, list):
        return [each for i, item in enumerate(value) for each in marks(item, f"{path}.{i}")]
    if not isinstance(value, dict):
        return []
    own = [path] if "cache_control" in value else []
    return own + [each for key, item in value.items() for each in marks(item, f"{path}.{key}")]


def test_the_stable_beginning_is_cached() -> None:
    sent = asked(TALK, caching=True, tools=(WEATHER, OTHER))
    assert marks(sent) == [
        ".system.1",
        ".tools.1",
        ".messages.2.content.0",
        ".messages.4.content.1",
    ]
    assert sent["tools"][1]["cache_control"] == EPHEMERAL


def test_caching_can_be_switched_off_and_leaves_the_caller_s_marks_alone() -> None:
    assert marks(asked(TALK, tools=(WEATHER,))) == []
    own = Text("one", extra={"anthropic": {"cache_control": EPHEMERAL}})
    sent = asked((TALK[0], Message.user(own), *TALK[2:]), caching=True, tools=(WEATHER,))
    assert marks(sent) == [".messages.0.content.0"]
    by_extra = asked(TALK, caching=True, extra={"cache_control": EPHEMERAL})
    assert marks(by_extra) == [""]


def test_the_same_message_is_encoded_once_with_and_without_a_mark() -> None:
    encoder = RequestEncoder(NEW)
    first = encoder.body(ModelRequest(TALK[:2]))
    second = encoder.body(ModelRequest(TALK))
    assert b'"text":"one","cache_control"' in first
    assert b'"text":"one","cache_control"' not in second


def test_an_unsupported_part_is_named_with_its_message() -> None:
    with pytest.raises(ConfigError, match=r"messages\[1\]\.parts\[0\]: .* a call of 'f'"):
        asked((*HELLO, Message("user", (FunctionCall("f", "{}", "a"),))))
