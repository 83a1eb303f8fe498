"""Any body gets an answer or an error in OpenAI's form, never a crash."""

import asyncio
import copy
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.gateway.routes.fuzzing import FUZZ, Gateway, encoded
from tests.support.asgi import Answer
from tests.support.json_values import any_json
from tests.support.serving import config_of

from windlass.gateway import create_app
from windlass.gateway.config import ModelConfig
from windlass.model import ModelRequest
from windlass.testing import FakeGemini, FakeOpenAI, ScriptedModel, Turn, call, say

pytestmark = pytest.mark.sweep

PATHS = ("/v1/chat/completions", "/v1/runs")
MODELS = ("scripted", "openai", "gemini")

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
        "strict": False,
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
VALID: dict[str, Any] = {
    "model": "scripted",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The weather?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        {"role": "user", "content": "And now?"},
    ],
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "parallel_tool_calls": False,
    "stream": False,
    "stream_options": None,
    "background": False,
    "n": 1,
    "temperature": 0.5,
    "top_p": 1,
    "max_tokens": 100,
    "stop": ["END"],
    "seed": 7,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "it", "schema": {"type": "object"}},
    },
    "user": "somebody",
}
odd_values = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**64, -(2**70), 1e308, "", "\ud800", "x" * 1000, [], {}, [[]], [None]]
)


def spoken(request: ModelRequest | dict[str, Any]) -> Turn:
    """Text, or a call if one is forced: a demand without a call is an error of the service."""
    match request:
        case ModelRequest(tool_choice=choice):
            forced = choice.mode == "required"
        case {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}:
            forced = True
        case _:
            forced = request.get("tool_choice") in ("required", VALID["tool_choice"])
    return call("get_weather", city="Paris") if forced else say('{"said": "Hello."}')


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("FUZZ_KEY", "key")
        openai = stack.enter_context(FakeOpenAI(spoken))
        gemini = stack.enter_context(FakeGemini(spoken))
        config = config_of(
            ModelConfig(
                name="openai", target="openai/m", base_url=openai.base_url, api_key_env="FUZZ_KEY"
            ),
            ModelConfig(
                name="gemini",
                target="gemini/gemini-2.5-flash",
                base_url=gemini.base_url,
                api_key_env="FUZZ_KEY",
            ),
        )
        runner = stack.enter_context(asyncio.Runner())
        models = {"scripted": ScriptedModel(spoken, strict=False)}
        app = create_app(config, models=models, tools=())
        yield Gateway(app, runner)
        runner.run(app.gateway.aclose())


def assert_answered(answer: Answer) -> None:
    """An answer, or an error about the request, in the right form."""
    if answer.status in (200, 202):
        if answer.headers["content-type"].startswith("application/json"):
            assert answer.json["object"] in ("chat.completion", "run")
        else:
            assert answer.body.endswith(b"data: [DONE]\n\n")
        return
    assert answer.status in (400, 404), answer.body[:500]
    assert answer.error["type"] in ("invalid_request_error", "not_found_error")


@FUZZ
@given(st.binary(max_size=200), st.sampled_from(PATHS))
@example(b"", PATHS[0])
@example(b"\xff\xfe{}", PATHS[0])
@example(b'{"model": "\xff"}', PATHS[0])
@example(b"\xef\xbb\xbf{}", PATHS[0])
def test_any_bytes_are_refused(gateway: Gateway, body: bytes, path: str) -> None:
    answer = gateway.post(body, path)
    assert answer.status == 400
    assert answer.error


@FUZZ
@given(any_json, st.sampled_from(PATHS))
def test_any_json_is_refused(gateway: Gateway, value: Any, path: str) -> None:
    answer = gateway.post(encoded(value), path)
    assert answer.status == 400
    assert answer.error


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every nested value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in inside:
        yield (*at, step)
        if isinstance(inner, dict | list):
            yield from places(inner, (*at, step))


def changed(place: tuple[Any, ...], *new: Any, model: str = "scripted") -> dict[str, Any]:
    """The valid body with another value at that place, or none."""
    body = {**copy.deepcopy(VALID), "model": model}
    holder: Any = body
    for step in place[:-1]:
        holder = holder[step]
    del holder[place[-1]]
    if new and isinstance(holder, list):
        holder.insert(place[-1], new[0])
    elif new:
        holder[place[-1]] = new[0]
    return body


@pytest.mark.parametrize("model", MODELS)
@FUZZ
@given(
    place=st.sampled_from(list(places(VALID))),
    new=st.lists(odd_values | any_json, max_size=1),
    stream=st.booleans(),
)
def test_a_body_with_one_wrong_field_never_causes_a_server_error(
    gateway: Gateway, model: str, place: tuple[Any, ...], new: list[Any], stream: bool
) -> None:
    body = changed(place, *new, model=model)
    body.update({"stream": True} if stream else {})
    assert_answered(gateway.post(encoded(body)))


@pytest.mark.parametrize("place", list(places(VALID)), ids=str)
def test_a_field_of_a_wrong_type_is_named(gateway: Gateway, place: tuple[Any, ...]) -> None:
    for wrong in (None, True, 12, 1.5, "text", [], {}, [1], {"a": 1}):
        answer = gateway.post(encoded(changed(place, wrong)))
        assert_answered(answer)
        if answer.status == 400:
            field = answer.error["param"].partition(".")[0].partition("[")[0]
            assert field == place[0] or (place[0], field) == ("tools", "tool_choice")
            assert field in answer.error["message"]


def tool_of(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


WRONG: list[tuple[str, Any, str]] = [
    ("model", 5, "model"),
    ("model", "", "model"),
    ("model", None, "model"),
    ("messages", "Hi", "messages"),
    ("messages", [], "messages"),
    ("messages", None, "messages"),
    ("messages", [5], "messages[0]"),
    ("messages", [{"role": "king", "content": "Hi"}], "messages[0].role"),
    ("messages", [{"role": "user"}], "messages[0].content"),
    ("messages", [{"role": "user", "content": 5}], "messages[0].content"),
    ("messages", [{"role": "user", "content": [{}]}], "messages[0].content[0].type"),
    ("messages", [{"role": "tool", "content": "Hi"}], "messages[0].tool_call_id"),
    ("tools", {}, "tools"),
    ("tools", [5], "tools[0]"),
    ("tools", [{"type": "function"}], "tools[0].function"),
    ("tools", [{"type": "magic"}], "tools[0].type"),
    ("tools", [tool_of(name=5)], "tools[0].function.name"),
    ("tools", [tool_of(name="a b")], "tools[0].function.name"),
    ("tools", [tool_of(description=5)], "tools[0].function.description"),
    ("tools", [tool_of(parameters=5)], "tools[0].function.parameters"),
    ("tools", [tool_of(parameters={"type": "string"})], "tools[0].function.parameters.type"),
    ("tools", [tool_of(), tool_of()], "tools[1].function.name"),
    ("tool_choice", "sometimes", "tool_choice"),
    ("tool_choice", {"type": "function", "function": {"name": "other"}}, "tool_choice"),
    ("parallel_tool_calls", "no", "parallel_tool_calls"),
    ("stream", "yes", "stream"),
    ("stream_options", 5, "stream_options"),
    ("background", 1, "background"),
    ("n", 2, "n"),
    ("temperature", "hot", "temperature"),
    ("top_p", [], "top_p"),
    ("top_k", 1.5, "top_k"),
    ("max_tokens", 0, "max_tokens"),
    ("max_completion_tokens", 0, "max_completion_tokens"),
    ("max_completion_tokens", "many", "max_completion_tokens"),
    ("stop", 5, "stop"),
    ("stop", ["a", 5], "stop"),
    ("seed", 1.5, "seed"),
    ("response_format", {"type": "xml"}, "response_format"),
]


@pytest.mark.parametrize(("field", "value", "param"), WRONG, ids=lambda value: str(value)[:30])
def test_a_wrong_field_is_refused_by_its_name(
    gateway: Gateway, field: str, value: Any, param: str
) -> None:
    answer = gateway.post(encoded({**VALID, field: value}))
    assert (answer.status, answer.error["param"]) == (400, param)
    assert answer.error["message"].startswith(param)


def test_the_valid_body_is_answered(gateway: Gateway) -> None:
    for model in MODELS:
        for stream in (False, True):
            body = {**VALID, "model": model, "stream": stream}
            assert gateway.post(encoded(body)).status == 200


def test_an_empty_stop_list_is_accepted(gateway: Gateway) -> None:
    body = {"model": "openai", "messages": [{"role": "user", "content": "Hi"}], "stop": []}
    assert gateway.post(encoded(body)).status == 200


def test_a_truncated_body_is_refused(gateway: Gateway) -> None:
    whole = encoded(VALID)
    for end in range(len(whole)):
        answer = gateway.post(whole[:end])
        assert (answer.status, answer.error["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("number", ["1e400", "1" * 400, "NaN", "1.5e-400", "-0", "0.1e1"])
@pytest.mark.parametrize("field", ["temperature", "seed", "max_tokens", "user", "metadata"])
def test_a_strange_number_never_causes_a_server_error(
    gateway: Gateway, field: str, number: str, model: str
) -> None:
    body = {**VALID, "model": model, field: "HERE"}
    assert_answered(gateway.post(encoded(body).replace(b'"HERE"', number.encode())))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400])
def test_a_number_without_an_end_is_refused(gateway: Gateway, number: str) -> None:
    body = encoded({**VALID, "temperature": "HERE"}).replace(b'"HERE"', number.encode())
    assert gateway.post(body).error["param"] == "temperature"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "HERE"),
        ("metadata", {"a": [1, "HERE"]}),
        ("messages", [{"role": "user", "content": "Hi", "weight": "HERE"}]),
        ("tools", [{"type": "function", "function": {"name": "f", "strict": "HERE"}}]),
    ],
)
@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
def test_numbers_that_json_does_not_have_are_refused(
    gateway: Gateway, field: str, value: Any, number: str, padding: int
) -> None:
    body = encoded({**VALID, "user": "x" * padding, field: value})
    answer = gateway.post(body.replace(b'"HERE"', number.encode()))
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert (answer.error["code"], answer.error["param"]) == ("invalid_json", field)
    assert f"{number} is not a number in JSON" in answer.error["message"]


@pytest.mark.parametrize("model", MODELS)
def test_half_a_surrogate_pair_never_causes_a_server_error(gateway: Gateway, model: str) -> None:
    for text in ("\ud800", "a\udfff", "\ude00\ud83d"):
        for field in ("user", text, "stop"):
            body = {**VALID, "model": model, field: text, "messages": []}
            body["messages"] = [{"role": "user", "content": text, "name": text}]
            assert_answered(gateway.post(encoded(body)))


@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xe2\x82"])
@pytest.mark.parametrize("place", [b"Be brief", b"somebody", b"response_format", b"get_weather"])
@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
def test_invalid_utf8_is_refused(
    gateway: Gateway, wrong: bytes, place: bytes, padding: int
) -> None:
    body = encoded({**VALID, "metadata": {"padding": "x" * padding}})
    assert place in body
    answer = gateway.post(body.replace(place, wrong))
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert answer.error["code"] == "invalid_json"
    assert f"not valid UTF-8 (byte {body.index(place)})" in answer.error["message"]


@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("depth", [65, 999, 1_001, 100_000, 1_000_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}"), ("[", "")])
def test_any_number_of_extra_levels_is_reported(
    gateway: Gateway, ends: tuple[str, str], depth: int, padding: int
) -> None:
    nested = ends[0] * depth + "1" + ends[1] * depth
    body = encoded({**VALID, "user": "x" * padding, "metadata": "HERE"})
    answer = gateway.post(body.replace(b'"HERE"', nested.encode()))
    if depth < 1_000 and not ends[1]:
        assert answer.error["code"] in ("too_deep", "invalid_json")  # it does not end either
        return
    assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
    assert (answer.error["code"], answer.error["param"]) == ("too_deep", "metadata")
    assert "more than 64 levels" in answer.error["message"]


def test_the_last_of_duplicate_keys_counts(gateway: Gateway) -> None:
    body = encoded(VALID)[:-1] + b', "model": "nowhere"}'
    assert gateway.post(body).error["code"] == "model_not_found"


@pytest.mark.parametrize("depth", [70, 1_000, 100_000])
@pytest.mark.parametrize("ends", [("[", "]"), ('{"a":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("field", ["messages", "tools", "tool_choice", "stop", "metadata", "n"])
def test_a_deeply_nested_body_is_refused(
    gateway: Gateway, field: str, ends: tuple[str, str], depth: int
) -> None:
    nested = ends[0] * depth + "1" + ends[1] * depth
    body = encoded({**VALID, field: "HERE"}).replace(b'"HERE"', nested.encode())
    answer = gateway.post(body)
    assert answer.status == 400
    assert answer.error["param"] in (field, None)


@pytest.mark.parametrize("field", ["parameters", "description", "name", "strict"])
@FUZZ
@given(any_json | odd_values)
def test_an_invalid_tool_never_causes_a_server_error(
    gateway: Gateway, field: str, value: Any
) -> None:
    tool = copy.deepcopy(TOOL)
    tool["function"][field] = value
    answer = gateway.post(encoded({**VALID, "tools": [tool], "tool_choice": "auto"}))
    assert_answered(answer)
    if answer.status == 400:
        assert answer.error["param"].startswith("tools[0]")


@pytest.mark.parametrize("size", [60_000, 65_000, 66_000, 100_000, 131_000, 132_000, 300_000])
@pytest.mark.parametrize("spaces", [0, 200_000])
@pytest.mark.parametrize(
    "place", ["content", "name of a field", "many messages", "many fields", "tools"]
)
def test_a_body_of_any_size_is_read(gateway: Gateway, place: str, size: int, spaces: int) -> None:
    asked: dict[str, Any] = {"role": "user", "content": "Hi"}
    body: dict[str, Any] = {"model": "scripted", "messages": [asked]}
    match place:
        case "content":
            asked["content"] = "é" * (size // 2)
        case "name of a field":
            body["metadata"] = {"x" * size: 1}
        case "many messages":
            body["messages"] = [asked] * (size // 40)
        case "many fields":
            body["metadata"] = {f"field{number}": number for number in range(size // 20)}
        case _:
            description = "x" * size
            body["tools"] = [
                {"type": "function", "function": {"name": "f", "description": description}}
            ]
    data = json.dumps(body, ensure_ascii=False).encode()
    answer = gateway.post(data[:1] + b" " * spaces + data[1:] + b" " * spaces)
    assert answer.status == 200, answer.body[:300]


@pytest.mark.parametrize("size", [100, 70_000, 140_000])
@pytest.mark.parametrize("body", ["[%s]", '"%s"', "[[%s]]", "%s1"], ids=str)
def test_a_body_that_is_no_object_is_refused_at_any_size(
    gateway: Gateway, body: str, size: int
) -> None:
    filling = " " * size if body != '"%s"' else "x" * size
    answer = gateway.post((body % filling).encode())
    assert answer.status == 400
    assert "The body must be a JSON object" in answer.error["message"]


def test_a_body_with_very_many_values_is_refused(gateway: Gateway) -> None:
    body = encoded({**VALID, "metadata": [0] * 250_000})
    answer = gateway.post(body)
    assert (answer.status, answer.error["code"]) == (400, "too_many_values")
    assert (answer.error["type"], answer.error["param"]) == ("invalid_request_error", "metadata")
    assert (
        gateway.post(encoded({**VALID, "metadata": [0] * 100_000, "tool_choice": "auto"})).status
        == 200
    )


def test_a_schema_whose_references_multiply_is_refused(gateway: Gateway) -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(40)
    }
    tool = copy.deepcopy(TOOL)
    tool["function"]["parameters"] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": definitions,
    }
    answer = gateway.post(encoded({**VALID, "tools": [tool], "tool_choice": "auto"}))
    assert (answer.status, answer.error["code"]) == (400, "invalid_tool")
    assert answer.error["param"] == "tools[0].function.parameters"
