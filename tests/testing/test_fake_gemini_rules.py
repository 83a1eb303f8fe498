"""What Gemini refuses, the fake refuses, in the same shape and words."""

from typing import Any

import pytest

from windlass.testing.exchange import RequestRefused
from windlass.testing.gemini_rules import GeminiRules, check_generate_request

USER = {"role": "user", "parts": [{"text": "Hello"}]}
MODEL = {"role": "model", "parts": [{"text": "Hi"}]}


def asked(*names: str, signature: str | None = None, **more: Any) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"functionCall": {"name": name, **more}} for name in names]
    if signature:
        parts[0]["thoughtSignature"] = signature
    return {"role": "model", "parts": parts}


def answered(*names: str, **more: Any) -> dict[str, Any]:
    answer = {"response": {"output": 1}, **more}
    return {"role": "user", "parts": [{"functionResponse": {"name": n, **answer}} for n in names]}


def declared(**fields: Any) -> dict[str, Any]:
    return {"contents": [USER], "tools": [{"functionDeclarations": [{"name": "f", **fields}]}]}


def calling(**config: Any) -> dict[str, Any]:
    return {**declared(), "toolConfig": {"functionCallingConfig": config}}


COUNT = "Please ensure that the number of function response parts is equal to the number of"
CALL_PLACE = "Please ensure that function call turn comes immediately after a user turn"
RESPONSE_PLACE = "Please ensure that function response turn comes immediately after"
ORDER = "Please ensure that function response parts are in the order"
UNKNOWN = "Invalid JSON payload received. Unknown name \"{}\" at '{}': Cannot find field."

REFUSED: list[tuple[Any, str]] = [
    (None, "Invalid JSON payload received"),
    ({}, "contents is not specified"),
    ({"contents": [{"role": "assistant", "parts": [{"text": "a"}]}]}, "Please use a valid role"),
    ({"contents": [{"role": "user", "parts": []}]}, "contents.parts must not be empty"),
    ({"contents": [{"role": "user", "parts": [{}]}]}, "must have one initialized field"),
    (
        {"contents": [{"role": "user", "parts": [{"text": "a", "inlineData": {}}]}]},
        "oneof field 'data' is already set. Cannot set 'inlineData'",
    ),
    ({"contents": [USER], "temperature": 1}, 'Unknown name "temperature": Cannot find field.'),
    ({"contents": ["Hello"]}, "Invalid value at 'contents[0]'"),
    ({"contents": [USER], "systemInstruction": [USER]}, "Proto field is not repeating"),
    (
        {"contents": [{"role": "user", "parts": [{"text": "a", "type": "text"}]}]},
        UNKNOWN.format("type", "contents[0].parts[0]"),
    ),
    ({"contents": [USER, asked("f")]}, COUNT),
    ({"contents": [USER, asked("f"), USER]}, COUNT),
    ({"contents": [USER, asked("f", "g"), answered("f")]}, COUNT),
    ({"contents": [USER, asked("f"), answered("f", "f")]}, COUNT),
    ({"contents": [USER, asked("f", "g"), answered("f"), answered("g")]}, COUNT),
    ({"contents": [asked("f"), answered("f")]}, CALL_PLACE),
    ({"contents": [{**asked("f"), "role": "user"}, answered("f")]}, CALL_PLACE),
    ({"contents": [answered("f")]}, RESPONSE_PLACE),
    ({"contents": [USER, MODEL, answered("f")]}, RESPONSE_PLACE),
    ({"contents": [USER, asked("f"), {**answered("f"), "role": "model"}]}, RESPONSE_PLACE),
    ({"contents": [USER, asked("f", "g"), answered("g", "f")]}, ORDER),
    ({"contents": [USER, asked("f", id="1"), answered("f", id="2")]}, ORDER),
    ({"contents": [USER, asked(""), answered("")]}, "Name cannot be empty"),
    (
        {"contents": [USER, asked("f", args="{}"), answered("f")]},
        "Invalid value at 'contents[1].parts[0].function_call.args'",
    ),
    (
        {"contents": [USER, asked("f"), answered("f", response="text")]},
        "Invalid value at 'contents[2].parts[0].function_response.response'",
    ),
    (
        {"contents": [USER, asked("f", signature="sig-1"), answered("f")]},
        "Base64 decoding failed",
    ),
    (declared(name="9 lives"), "Invalid function name"),
    (declared(name="f" * 65), "Invalid function name"),
    (declared(parameters={}, parametersJsonSchema={}), "mutually exclusive"),
    (
        declared(parameters={"type": "object", "$defs": {}}),
        UNKNOWN.format("$defs", "tools[0].function_declarations[0].parameters"),
    ),
    (
        declared(parameters={"properties": {"a": {"items": {"const": 1}}}}),
        UNKNOWN.format("const", "tools[0].function_declarations[0].parameters.properties[a].items"),
    ),
    (
        declared(parameters={"anyOf": [{"type": ["string", "null"]}]}),
        "at 'tools[0].function_declarations[0].parameters.any_of[0]': Proto field is not repeating",
    ),
    (declared(parameters={"enum": ["a", 1]}), "parameters.enum[1]' (TYPE_STRING), 1"),
    (
        {"contents": [USER], "tools": [{"functionDeclarations": [{"name": "f"}] * 2}]},
        "Duplicate function declaration found: f",
    ),
    (
        {
            "contents": [USER],
            "tools": [{"functionDeclarations": [{"name": f"f{n}"} for n in range(513)]}],
        },
        "At most 512",
    ),
    (calling(mode="MAYBE"), "Invalid value at 'tool_config.function_calling_config.mode'"),
    (calling(mode="AUTO", allowedFunctionNames=["f"]), "only when function calling mode is ANY"),
    (calling(mode="ANY", allowedFunctionNames=["g"]), "g is not a declared function"),
    (
        {"contents": [USER], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "Function calling config is set without function_declarations",
    ),
]

TAKEN: list[dict[str, Any]] = [
    {"contents": [{"parts": [{"text": "no role is the user's"}]}]},
    {"contents": [USER, asked("f", "g"), answered("f", "g"), asked("f"), answered("f")]},
    {"contents": [USER, asked("f", id="1"), answered("f", id="1"), MODEL, USER]},
    {"contents": [USER, MODEL, asked("f"), asked("g"), answered("f", "g")]},
    {"contents": [USER, asked("f", signature="c2ln"), answered("f")]},
    {"contents": [USER, asked("f", signature="skip_thought_signature_validator"), answered("f")]},
    declared(parameters={"type": "OBJECT", "properties": {"anything_at_all": {"type": "STRING"}}}),
    declared(parametersJsonSchema={"type": ["object"], "$defs": {}}),
    {**declared(), "tools": [{"function_declarations": [{"name": "f"}]}, {"googleSearch": {}}]},
    calling(mode="NONE"),
    calling(mode="ANY", allowedFunctionNames=["f"]),
    calling(mode="VALIDATED"),
    {
        "contents": [USER],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0, "responseSchema": {"type": "STRING"}},
    },
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_it_is_refused(body: Any, message: str):
    with pytest.raises(RequestRefused) as caught:
        check_generate_request(body, GeminiRules())
    assert message in caught.value.message
    assert caught.value.status == 400


@pytest.mark.parametrize("body", TAKEN)
def test_it_is_accepted(body: dict[str, Any]):
    assert check_generate_request(body, GeminiRules())


def test_vertex_refuses_ids():
    history = {"contents": [USER, asked("f", id="1"), answered("f")]}
    with pytest.raises(RequestRefused) as caught:
        check_generate_request(history, GeminiRules(ids=False))
    assert caught.value.message == UNKNOWN.format("id", "contents[1].parts[0].function_call")
    history = {"contents": [USER, asked("f"), answered("f", id="1")]}
    with pytest.raises(RequestRefused, match="function_response"):
        check_generate_request(history, GeminiRules(ids=False))


def test_a_service_may_not_know_json_schema():
    with pytest.raises(RequestRefused, match='Unknown name "parametersJsonSchema"'):
        check_generate_request(declared(parametersJsonSchema={}), GeminiRules(json_schema=False))


def test_gemini_3_wants_a_signature_on_the_first_call_of_each_step():
    rules = GeminiRules(signatures=True)
    first, second = asked("f", "g", signature="c2ln"), asked("f", signature="c2ln")
    good = [USER, first, answered("f", "g"), second, answered("f")]
    assert check_generate_request({"contents": good}, rules)
    bad = [USER, first, answered("f", "g"), asked("f"), answered("f")]
    with pytest.raises(RequestRefused) as caught:
        check_generate_request({"contents": bad}, rules)
    assert caught.value.message.startswith(
        "Function call is missing a thought_signature in functionCall parts."
    )
    assert "`default_api:f` , position 4." in caught.value.message


def test_steps_before_the_last_user_message_need_no_signature():
    history = [USER, asked("f"), answered("f"), MODEL, USER]
    assert check_generate_request({"contents": history}, GeminiRules(signatures=True))
