"""`tool_choice` in emulated mode: the prompt, one retry, and constrained decoding."""

from typing import Any

import msgspec
import pytest
from jsonschema_rs import validator_for
from tests.support.asking import (
    CLOCK,
    PARIS,
    TOOLS,
    WEATHER,
    asked,
    emulated,
    end_of,
    events_of,
    names_of,
    text_of,
    written,
)

from windlass import AsyncClient, ConfigError, FunctionDeclaration, Message, ModelError
from windlass.content import FunctionCall, FunctionResponse
from windlass.emulation.constrain import call_schema
from windlass.events import TextDelta
from windlass.model import Settings, ToolChoice
from windlass.testing import ScriptedModel, refuse, say, think

ANSWERED = (
    Message.user("Weather in Paris?"),
    Message.assistant(FunctionCall("get_weather", '{"city":"Paris"}', "call_1")),
    Message.tool([FunctionResponse("get_weather", {"output": "sunny"}, "call_1")]),
)


def words(inner: ScriptedModel, number: int = 0) -> str:
    return inner.requests[number].messages[0].text


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("required", "must call at least one function"),
        ("get_time", "must call get_time"),
        (ToolChoice("required", ("get_time", "get_weather")), "one of get_time, get_weather"),
        (ToolChoice("auto", ("get_time",)), "only these functions may be called: get_time"),
    ],
)
async def test_the_tool_choice_is_at_the_end_of_the_system_message(choice: Any, said: str) -> None:
    model, inner = emulated([written("get_time")], constrain="never")
    assert names_of(await events_of(model, asked(choice=choice))) == ["get_time"]
    assert said in words(inner).splitlines()[-1]


async def test_the_catalog_comes_first_and_does_not_depend_on_the_choice() -> None:
    model, inner = emulated([PARIS, PARIS], constrain="never")
    await events_of(model, asked())
    await events_of(model, asked(choice="required"))
    assert words(inner, 1).startswith(words(inner, 0))


async def test_a_model_that_must_call_and_does_not_is_reminded_once() -> None:
    model, inner = emulated(["It is sunny.", PARIS], constrain="never")
    events = await events_of(model, asked(choice="required"))
    assert (names_of(events), text_of(events)) == (["get_weather"], "")
    assert end_of(events).usage.total_tokens == 30
    *_, said, reminder = inner.requests[1].messages
    assert (said.role, said.text) == ("assistant", "It is sunny.")
    assert reminder.role == "user"
    assert "must call a tool now" in reminder.text
    assert PARIS in reminder.text


async def test_a_model_that_never_calls_can_answer_after_the_reminder() -> None:
    model, inner = emulated(["No.", "Still no."], constrain="never")
    events = await events_of(model, asked(choice="get_weather"))
    assert (names_of(events), text_of(events)) == ([], "Still no.")
    assert end_of(events).finish == "stop"
    assert len(inner.requests) == 2


async def test_a_call_of_another_function_than_the_named_one_is_not_made() -> None:
    model, _ = emulated([PARIS, written("get_time")], constrain="never")
    assert names_of(await events_of(model, asked(choice="get_time"))) == ["get_time"]


async def test_text_before_a_required_call_comes_with_the_call() -> None:
    model, inner = emulated([think("hm", f"I look. {PARIS}")], constrain="never")
    events = await events_of(model, asked(choice="required"))
    assert names_of(events) == ["get_weather"]
    assert text_of(events).strip() == "I look."
    assert len(inner.requests) == 1


async def test_after_an_empty_answer_the_reminder_joins_the_user_message() -> None:
    model, inner = emulated(["", PARIS], constrain="never")
    await events_of(model, asked(choice="required"))
    roles = [message.role for message in inner.requests[1].messages]
    assert roles == ["system", "user"]
    assert inner.requests[1].messages[-1].text.startswith("Weather in Paris?\n\nThat was no call.")


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_truncated_or_withheld_answer_is_not_retried(finish: str) -> None:
    model, inner = emulated([say("No", finish=finish)], constrain="never")
    events = await events_of(model, asked(choice="required"))
    assert (text_of(events), end_of(events).finish) == ("No", finish)
    assert len(inner.requests) == 1


async def test_with_none_the_prompt_has_no_catalog_and_calls_are_dropped() -> None:
    model, inner = emulated([f"It is {PARIS} sunny."])
    events = await events_of(model, asked(ANSWERED, choice="none"))
    assert names_of(events) == []
    assert text_of(events).split() == ["It", "is", "sunny."]
    assert end_of(events).finish == "stop"
    assert "<tools>" not in words(inner)
    assert "No function can be called any more" in words(inner)


async def test_with_none_and_no_earlier_calls_the_prompt_has_no_tools() -> None:
    model, inner = emulated(["Hello."])
    request = asked("Hi", choice="none")
    assert text_of(await events_of(model, request)) == "Hello."
    assert inner.requests == [asked("Hi", tools=())]


async def test_a_choice_of_a_tool_that_is_not_offered_is_refused() -> None:
    model, inner = emulated([])
    with pytest.raises(ConfigError, match="unknown tool 'get_rich' in tool_choice"):
        await events_of(model, asked(choice="get_rich"))
    assert inner.requests == []


async def test_a_call_instead_of_the_final_answer_is_retried() -> None:
    model, inner = emulated([PARIS, "It is sunny."])
    events = await events_of(model, asked(ANSWERED, tools=(), choice="none"))
    assert (names_of(events), text_of(events)) == ([], "It is sunny.")
    assert "Answer in plain words" in inner.requests[1].messages[-1].text


async def test_a_forced_call_is_forced_once_in_a_run() -> None:
    def get_weather(city: str) -> str:
        """Current weather of a city."""
        return f"sunny in {city}"

    async with AsyncClient(ScriptedModel([PARIS, "Sunny."]), mode="emulated") as client:
        reply = await client.generate("?", tools=[get_weather], tool_choice="required")
    assert (reply.text, len(reply.calls)) == ("Sunny.", 1)


# Constrained decoding.


async def test_a_required_call_is_requested_as_json() -> None:
    model, inner = emulated(['{"name": "get_weather", "arguments": {"city": "Rome"}}'])
    events = await events_of(model, asked(choice="get_weather"))
    assert names_of(events) == ["get_weather"]
    assert text_of(events) == ""
    schema = inner.requests[0].settings.response_schema
    assert schema is not None
    assert schema["properties"]["name"]["enum"] == ["get_weather"]
    assert "Write nothing but one JSON object" in words(inner)
    assert inner.requests[0].settings.stop is None


async def test_an_optional_call_is_not_constrained() -> None:
    model, inner = emulated(["Hi."])
    await events_of(model, asked())
    assert inner.requests[0].settings.response_schema is None


async def test_always_lets_the_model_call_or_answer() -> None:
    answers = [
        '{"name": "get_time", "arguments": {}}',
        '{"answer": "It is \\"late\\"."}',
        "Just so.",
    ]
    model, inner = emulated(answers, constrain="always")
    assert names_of(await events_of(model, asked())) == ["get_time"]
    assert text_of(await events_of(model, asked())) == 'It is "late".'
    assert text_of(await events_of(model, asked())) == "Just so."
    schema = inner.requests[0].settings.response_schema
    assert schema is not None
    assert len(schema["anyOf"]) == 3


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with model",
        "response_format type is unavailable now",
        "The provided JSON schema contains features not supported by xgrammar.",
        "Unable to generate parser: failed to parse grammar",
        "Unknown name \"responseJsonSchema\" at 'generation_config'",
    ],
)
async def test_a_server_that_cannot_constrain_gets_no_schema(refusal: str) -> None:
    model, inner = emulated([refuse(400, refusal), PARIS, PARIS])
    for _ in range(2):
        assert names_of(await events_of(model, asked(choice="required"))) == ["get_weather"]
    schemas = [request.settings.response_schema for request in inner.requests]
    assert [schema is None for schema in schemas] == [False, True, True]


async def test_the_callers_own_schema_still_allows_calls() -> None:
    shape = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
    model, inner = emulated([PARIS, '{"sky": "clear"}'])
    settings = Settings(response_schema=shape)
    assert names_of(await events_of(model, asked(settings=settings))) == ["get_weather"]
    assert text_of(await events_of(model, asked(ANSWERED, settings=settings))) == '{"sky": "clear"}'
    schema = inner.requests[0].settings.response_schema
    assert schema is not None
    valid = validator_for(schema).is_valid
    assert valid({"sky": "clear"})
    assert valid({"name": "get_weather", "arguments": {"city": "Paris"}})
    assert not valid({"name": "get_weather", "arguments": {}})


async def test_the_callers_schema_is_in_the_prompt_if_no_server_enforces_it() -> None:
    shape = {"type": "object", "properties": {"sky": {"type": "string"}}}
    model, inner = emulated(['{"sky": "clear"}', "{}"], constrain="never")
    await events_of(model, asked(settings=Settings(response_schema=shape)))
    assert inner.requests[0].settings.response_schema is None
    assert '"properties":{"sky":{"type":"string"}}' in words(inner).splitlines()[-1]
    await events_of(model, asked(settings=Settings(response_schema={})))
    assert words(inner, 1).endswith("An answer that is not a call must be one JSON object.")


async def test_a_refusal_of_the_callers_schema_is_raised() -> None:
    model, inner = emulated([refuse(400, "response_format is not supported")])
    with pytest.raises(ModelError, match="response_format"):
        await events_of(
            model,
            asked(ANSWERED, choice="none", settings=Settings(response_schema={"type": "object"})),
        )
    assert len(inner.requests) == 1


def test_a_call_schema_accepts_exactly_the_calls() -> None:
    valid = validator_for(call_schema(TOOLS)).is_valid
    assert valid({"name": "get_weather", "arguments": {"city": "Rome"}})
    assert valid({"name": "get_time", "arguments": {}})
    assert not valid({"name": "get_weather", "arguments": {"city": 3}})
    assert not valid({"name": "rm_rf", "arguments": {}})
    assert not valid({"name": "get_time", "arguments": {}, "more": 1})


def test_definitions_of_several_tools_do_not_collide() -> None:
    def tree(name: str, kind: str) -> FunctionDeclaration:
        node = {
            "type": "object",
            "properties": {
                "value": {"type": kind},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["value"],
        }
        root = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}}
        return FunctionDeclaration(
            name, "", {**root, "required": ["root"], "$defs": {"Node": node}}
        )

    schema = call_schema((tree("texts", "string"), tree("numbers", "number")))
    valid = validator_for(schema).is_valid
    deep = {"value": "a", "children": [{"value": "b"}]}
    assert valid({"name": "texts", "arguments": {"root": deep}})
    assert not valid({"name": "numbers", "arguments": {"root": deep}})
    assert valid({"name": "numbers", "arguments": {"root": {"value": 1}}})


def test_one_tool_makes_a_schema_without_alternatives() -> None:
    schema = call_schema((WEATHER,))
    assert list(schema["properties"]) == ["name", "arguments"]
    assert msgspec.json.encode(call_schema((WEATHER,))) == msgspec.json.encode(schema)
    assert "anyOf" not in schema
    assert call_schema((CLOCK,))["properties"]["name"]["enum"] == ["get_time"]


async def test_constrained_text_is_not_shown_in_pieces_of_json() -> None:
    model, _ = emulated([say('{"answer": "Hello there."}', pieces=3)], constrain="always")
    events = await events_of(model, asked("Hi"))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hello there."]
