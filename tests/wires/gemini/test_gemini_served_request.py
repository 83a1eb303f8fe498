"""generateContent requests of clients: what the gateway reads in them, and which field is wrong."""

import base64
import contextlib
import json
import logging
from typing import Any

import msgspec
import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    Opaque,
    ProviderTool,
    Text,
    Thought,
)
from windlass.model import AUTO, NONE, ToolChoice
from windlass.request import PartPlace, RequestLimits, RunRequest
from windlass.tool import Tool
from windlass.wires.errors import InvalidRequest
from windlass.wires.gemini.messages import PLACEHOLDER_SIGNATURE, Token, decode_token, encode_token
from windlass.wires.gemini.read_request import read_request
from windlass.wires.gemini.write_events import Form

LIMITS = RequestLimits()
HELLO = {"role": "user", "parts": [{"text": "Hello"}]}
CALL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"x": 2}}}]}


def read(*contents: Any, limits: RequestLimits = LIMITS, **fields: Any) -> RunRequest:
    body = json.dumps({"contents": list(contents) or [HELLO], **fields}).encode()
    return read_request(body, limits, "m")


def messages_of(*contents: Any) -> tuple[Message, ...]:
    return read(*contents).messages


def tools_of(*tools: Any) -> dict[str, Tool]:
    given = read(tools=list(tools)).tools
    return {tool.name: tool for tool in given.read(given.source, LIMITS)}


def refused(*contents: Any, **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        request = read(*contents, **fields)
        request.tools.read(request.tools.source, LIMITS)
    assert caught.value.message.startswith(f"{caught.value.param}: ")
    return caught.value


# Contents.


def test_the_model_comes_from_the_path() -> None:
    request = read(model="models/other")
    assert (request.wire, request.model, request.live) == ("gemini", "m", False)
    assert read_request(json.dumps({"contents": [HELLO]}).encode(), LIMITS, "m", live=True).live


def test_turns_become_messages() -> None:
    answer = {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "Hi."}]}
    assert messages_of(HELLO, answer, HELLO) == (
        Message.user("Hello"),
        Message.assistant(Thought("Hm."), "Hi."),
        Message.user("Hello"),
    )


def test_a_content_without_a_role_is_the_users() -> None:
    assert messages_of({"parts": [{"text": "Hello"}]}) == (Message.user("Hello"),)


@pytest.mark.parametrize(
    "instruction",
    [
        {"parts": [{"text": "Be brief."}]},
        {"role": "user", "parts": [{"text": "Be brief."}]},
        {"parts": {"text": "Be brief."}},
        {"text": "Be brief."},
        [{"text": "Be brief."}],
        "Be brief.",
    ],
)
@pytest.mark.parametrize("name", ["systemInstruction", "system_instruction"])
def test_the_instruction_comes_first(name: str, instruction: Any) -> None:
    request = read(HELLO, **{name: instruction})
    assert request.messages == (Message.system("Be brief."), Message.user("Hello"))


def test_media_are_decoded_and_placed() -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    request = read(
        {
            "role": "user",
            "parts": [
                {"text": "See"},
                {"inline_data": {"mime_type": "image/png", "data": data}},
                {"fileData": {"mimeType": "audio/mp3", "fileUri": "gs://a/b"}},
                {"inlineData": {"mimeType": "application/pdf", "data": data}},
            ],
        }
    )
    assert request.messages[0].parts == (
        Text("See"),
        InlineData(b"\x89PNG", "image/png"),
        FileData("gs://a/b", "audio/mp3"),
        InlineData(b"\x89PNG", "application/pdf"),
    )
    assert request.parts == (
        PartPlace("contents[0].parts[1]", "image/png", "image"),
        PartPlace("contents[0].parts[2]", "audio/mp3", "audio"),
        PartPlace("contents[0].parts[3]", "application/pdf", "file"),
    )


def test_parts_that_only_google_knows_are_kept() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    [_, turn] = messages_of(HELLO, {"role": "model", "parts": [code]})
    assert turn.parts == (Opaque("gemini", code),)


def test_chunks_that_a_chat_has_stored_one_by_one_are_one_turn() -> None:
    """Chats of google-genai return a content for each chunk of a stream."""
    chunks = [{"role": "model", "parts": [{"text": text}]} for text in ("One ", "two.", "")]
    thought = {"role": "model", "parts": [{"text": "Hm.", "thought": True}]}
    assert messages_of(HELLO, thought, *chunks, HELLO) == (
        Message.user("Hello"),
        Message.assistant(Thought("Hm."), "One two."),
        Message.user("Hello"),
    )


def test_signed_texts_are_never_joined() -> None:
    parts = [{"text": "a"}, {"text": "b", "thoughtSignature": "c2ln"}, {"text": "c"}]
    [_, turn] = messages_of(HELLO, {"role": "model", "parts": parts})
    assert turn.parts == (Text("a"), Text("b", "c2ln"), Text("c"))


def test_a_part_with_a_signature_alone_is_an_empty_text() -> None:
    parts = [{"text": "a"}, {"thoughtSignature": "c2ln"}]
    [_, turn] = messages_of(HELLO, {"role": "model", "parts": parts})
    assert turn.parts == (Text("a"), Text("", "c2ln"))


# Calls and results.


def test_a_result_without_an_id_answers_the_call_of_its_name() -> None:
    [_, turn, results] = messages_of(HELLO, CALL, RESULT)
    assert turn.calls[0].id
    assert results == Message.tool([FunctionResponse("f", {"x": 2}, turn.calls[0].id)])


def test_results_of_one_name_answer_the_calls_in_order() -> None:
    calls = [{"functionCall": {"name": "f", "args": {"a": n}}} for n in (1, 2)]
    results = [{"functionResponse": {"name": "f", "response": {"x": n}}} for n in (1, 2)]
    [_, turn, answered] = messages_of(
        HELLO, {"role": "model", "parts": calls}, {"role": "user", "parts": results}
    )
    answers = {answer.id: answer.response["x"] for answer in answered.responses}
    assert [answers[call.id] for call in turn.calls] == [1, 2]


def test_results_are_sorted_in_call_order_and_joined() -> None:
    calls = [{"functionCall": {"id": n, "name": "f"}} for n in ("1", "2")]
    results = [
        {"role": "user", "parts": [{"functionResponse": {"id": n, "name": "f", "response": {}}}]}
        for n in ("2", "1")
    ]
    [_, _, answered] = messages_of(HELLO, {"role": "model", "parts": calls}, *results)
    assert [answer.id for answer in answered.responses] == ["1", "2"]


def test_text_beside_results_is_not_lost() -> None:
    mixed = {"role": "user", "parts": [{"text": "And?"}, *RESULT["parts"]]}
    [_, turn, results, text] = messages_of(HELLO, CALL, mixed)
    assert [answer.id for answer in results.responses] == [turn.calls[0].id]
    assert text == Message.user("And?")


def test_a_call_without_an_id_has_the_same_one_in_every_request() -> None:
    first, second = messages_of(HELLO, CALL, RESULT), messages_of(HELLO, CALL, RESULT, HELLO)
    assert first == second[:3]


def test_media_in_a_result_belong_to_it() -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    result = {"name": "f", "response": {}, "parts": [blob]}
    answered = {"role": "user", "parts": [{"functionResponse": result}]}
    [_, _, results] = messages_of(HELLO, CALL, answered)
    assert results.responses[0].parts == (InlineData(b"hi", "image/png"),)


# Signatures.


@given(
    st.builds(
        Token,
        st.text(),
        st.none() | st.text(),
        st.dictionaries(st.text(), st.text() | st.integers(-9, 9), max_size=3),
    )
)
def test_a_token_survives_a_client_that_decodes_and_encodes_it(token: Token) -> None:
    part = types.Part.model_validate({"text": "x", "thoughtSignature": encode_token(token)})
    returned = json.loads(part.model_dump_json(exclude_none=True, by_alias=True))
    assert decode_token(encode_token(token)) == token
    assert decode_token(returned["thoughtSignature"]) == token


def signed_call(token: Token, **fields: Any) -> dict[str, Any]:
    call = {"name": "f", "args": {}, **fields}
    return {"role": "model", "parts": [{"functionCall": call, "thoughtSignature": token_of(token)}]}


def token_of(token: Token) -> str:
    return encode_token(token)


def test_the_token_restores_what_the_client_has_not_seen() -> None:
    token = Token("call_7", "signed by the model", {"openai": {"x": 1}})
    [_, turn] = messages_of(HELLO, signed_call(token))
    made = FunctionCall("f", "{}", "call_7", "signed by the model", extra={"openai": {"x": 1}})
    assert turn.calls == (made,)


def test_results_follow_a_client_that_made_its_own_ids() -> None:
    answer = {"functionResponse": {"id": "mine", "name": "f", "response": {}}}
    [_, turn, results] = messages_of(
        HELLO, signed_call(Token("call_7"), id="mine"), {"role": "user", "parts": [answer]}
    )
    assert (turn.calls[0].id, results.responses[0].id) == ("call_7", "call_7")


@pytest.mark.parametrize("placeholder", [PLACEHOLDER_SIGNATURE, "skip/thought/signature/validator"])
def test_googles_placeholder_is_no_signature(placeholder: str) -> None:
    part = {**CALL["parts"][0], "thoughtSignature": placeholder}
    [_, turn] = messages_of(HELLO, {"role": "model", "parts": [part]})
    assert turn.calls[0].signature is None


def test_a_damaged_token_is_no_signature() -> None:
    assert decode_token(encode_token(Token("call_7"))[:-9]) == Token()


def test_a_signature_of_the_service_is_the_models_own() -> None:
    part = {**CALL["parts"][0], "thoughtSignature": "c2lnbmVk"}
    [_, turn] = messages_of(HELLO, {"role": "model", "parts": [part]})
    assert turn.calls[0].signature == "c2lnbmVk"


# Tools.


@pytest.mark.parametrize(
    "schema",
    [
        {"parameters": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}},
        {"parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"parametersJsonSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"parameters_json_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    ],
)
def test_functions_are_read_in_every_form(schema: Any) -> None:
    [tool] = tools_of({"functionDeclarations": [{"name": "f", "description": "Fs.", **schema}]})
    declaration = tools_of(
        {"function_declarations": [{"name": "f", "description": "Fs.", **schema}]}
    )
    expected = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert declaration[tool].declaration == FunctionDeclaration("f", "Fs.", expected)


def test_a_schema_in_googles_dialect_becomes_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "note": {"type": "STRING", "nullable": True, "max_length": "9"},
            "type": {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": "1"},
        },
        "required": ["type"],
    }
    declared = tools_of({"functionDeclarations": [{"name": "f", "parameters": schema}]})["f"]
    assert isinstance(declared.declaration, FunctionDeclaration)
    assert declared.declaration.parameters["properties"] == {
        "note": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
        "type": {"type": "array", "items": {"type": "number"}, "minItems": 1},
    }


def test_tools_that_google_runs_are_markers() -> None:
    tools = tools_of(
        {"googleSearch": {}},
        {"code_execution": {}, "functionDeclarations": [{"name": "f"}]},
        {"urlContext": {"x": 1}},
    )
    markers = [each.declaration for each in tools.values() if each.name != "f"]
    assert markers == [
        GoogleSearch(),
        ProviderTool("gemini", {"codeExecution": {}}),
        ProviderTool("gemini", {"urlContext": {"x": 1}}),
    ]
    assert len(tools) == 4


@pytest.mark.parametrize(("key", "name"), [("", "_"), ("2nd", "_2nd"), ("a b", "a_b")])
def test_a_tool_of_google_may_have_any_key(key: str, name: str) -> None:
    [made] = tools_of({key: {"x": 1}}, {key: {}}).values()
    assert (made.name, made.declaration) == (name, ProviderTool("gemini", {key: {"x": 1}}))


def test_servers_for_google_are_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "windlass.wires"):
        assert tools_of({"mcpServers": [{"name": "x"}]}) == {}
    assert "mcpServers" in caplog.text


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({}, AUTO),
        ({"functionCallingConfig": {}}, AUTO),
        ({"functionCallingConfig": {"mode": "AUTO"}}, AUTO),
        ({"functionCallingConfig": {"mode": "NONE"}}, NONE),
        ({"functionCallingConfig": {"mode": "ANY"}}, ToolChoice("required")),
        (
            {"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
            ToolChoice("required", ("f",), only=True),
        ),
        (
            {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}},
            ToolChoice("auto", ("f",)),
        ),
    ],
)
def test_the_choice_of_tools(config: Any, choice: ToolChoice) -> None:
    assert read(toolConfig=config).tool_choice == choice
    assert read(tool_config=config).tool_choice == choice


# Settings.


def test_all_settings_are_read() -> None:
    config = {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40.0,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "seed": 7,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseLogprobs": True,
        "logprobs": 3,
        "candidateCount": 1,
    }
    settings = read(generationConfig=config).settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 40)
    assert (settings.max_tokens, settings.stop, settings.seed) == (100, ("END",), 7)
    assert (settings.presence_penalty, settings.frequency_penalty) == (0.1, 0.2)
    assert (settings.logprobs, settings.top_logprobs) == (True, 3)
    snake = {"max_output_tokens": 100, "top_p": 0.9, "stop_sequences": ["END"]}
    assert read(generation_config=snake).settings.max_tokens == 100
    assert read(generation_config=snake).extra == {}


@pytest.mark.parametrize(
    ("config", "effort", "extra"),
    [
        ({"thinkingBudget": 0}, "none", {"thinkingBudget": 0}),
        ({"thinkingBudget": 5000}, "medium", {"thinkingBudget": 5000}),
        ({"thinkingBudget": 99999}, "high", {"thinkingBudget": 99999}),
        ({"thinkingBudget": -1}, None, {"thinkingBudget": -1}),
        ({"thinkingLevel": "LOW"}, "low", {"thinkingLevel": "LOW", "thinkingBudget": None}),
        ({"thinking_level": "odd"}, None, {"thinkingLevel": "odd"}),
    ],
)
def test_thinking_is_an_effort_and_stays_exact_for_google(
    config: Any, effort: str | None, extra: Any
) -> None:
    request = read(generationConfig={"thinkingConfig": config})
    assert request.settings.reasoning_effort == effort
    assert request.extra == {"generationConfig": {"thinkingConfig": extra}}


def test_thoughts_are_shown_if_the_client_asks_for_them() -> None:
    asked = read(generationConfig={"thinkingConfig": {"includeThoughts": True}})
    assert msgspec.convert(asked.answer, Form) == Form(thoughts=True)
    assert msgspec.convert(read().answer, Form) == Form(thoughts=False)


@pytest.mark.parametrize(
    ("config", "schema"),
    [
        ({}, None),
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, {}),
        ({"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}}, "string"),
        ({"responseJsonSchema": {"type": "string"}}, "string"),
    ],
)
def test_the_format_of_the_answer(config: Any, schema: Any) -> None:
    request = read(generationConfig=config)
    expected = {"type": schema} if isinstance(schema, str) else schema
    assert request.settings.response_schema == expected
    assert msgspec.convert(request.answer, Form).all_text == (schema is None)


def test_fields_of_google_reach_its_models_unchanged() -> None:
    request = read(
        safety_settings=[{"category": "X"}],
        cachedContent="c/1",
        labels={"a_b": "c"},
        toolConfig={"retrievalConfig": {"languageCode": "de"}},
        generationConfig={"responseModalities": ["IMAGE"], "responseMimeType": "text/x.enum"},
    )
    assert request.extra == {
        "safetySettings": [{"category": "X"}],
        "cachedContent": "c/1",
        "labels": {"a_b": "c"},
        "toolConfig": {"retrievalConfig": {"languageCode": "de"}},
        "generationConfig": {"responseModalities": ["IMAGE"], "responseMimeType": "text/x.enum"},
    }


# Errors.

FUNCTIONS = "tools[0].functionDeclarations"
CALLING = "toolConfig.functionCallingConfig"


@pytest.mark.parametrize(
    ("contents", "place"),
    [
        (["Hello"], "contents[0]"),
        ([{"role": "user"}], "contents[0].parts"),
        ([{"role": "bot", "parts": []}], "contents[0].role"),
        ([{"parts": ["Hello"]}], "contents[0].parts[0]"),
        ([{"parts": [{"text": "a"}, {}]}], "contents[0].parts[1]"),
        ([{"parts": [{"text": 1}]}], "contents[0].parts[0].text"),
        ([{"parts": [{"inlineData": {"data": "?"}}]}], "contents[0].parts[0].inlineData.data"),
        ([{"parts": [{"fileData": {}}]}], "contents[0].parts[0].fileData.fileUri"),
        ([HELLO, RESULT], "contents[1].parts[0].functionResponse"),
        ([HELLO, {"role": "model", "parts": [{"functionCall": {}}]}],
         "contents[1].parts[0].functionCall.name"),
    ],
)  # fmt: skip
def test_a_wrong_content_is_named(contents: list[Any], place: str) -> None:
    assert refused(*contents).param == place


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"systemInstruction": 1}, "systemInstruction"),
        ({"systemInstruction": {"parts": [{"inlineData": {}}]}}, "systemInstruction.parts[0]"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [{"functionDeclarations": {}}]}, FUNCTIONS),
        ({"tools": [{"functionDeclarations": [{}]}]}, f"{FUNCTIONS}[0].name"),
        ({"tools": [{"functionDeclarations": [{"name": "a b"}]}]}, f"{FUNCTIONS}[0].name"),
        ({"tools": [{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]},
         f"{FUNCTIONS}[1].name"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT",
          "properties": {"a": 1}}}]}]}, f"{FUNCTIONS}[0].parameters.properties.a"),
        ({"toolConfig": 1}, "toolConfig"),
        ({"toolConfig": {"functionCallingConfig": 1}}, CALLING),
        ({"toolConfig": {"functionCallingConfig": {"mode": "MAYBE"}}}, f"{CALLING}.mode"),
        ({"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": "f"}}},
         f"{CALLING}.allowedFunctionNames"),
        ({"generationConfig": []}, "generationConfig"),
        ({"generationConfig": {"temperature": "hot"}}, "generationConfig.temperature"),
        ({"generationConfig": {"max_output_tokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"stopSequences": [1]}}, "generationConfig.stopSequences"),
        ({"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount"),
        ({"generationConfig": {"thinkingConfig": 1}}, "generationConfig.thinkingConfig"),
        ({"generationConfig": {"responseJsonSchema": 1}}, "generationConfig.responseJsonSchema"),
        ({"contents": []}, "contents"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(fields: Any, place: str) -> None:
    assert refused(**fields).param == place


def test_limits_are_kept() -> None:
    with pytest.raises(InvalidRequest, match="contents: 2 contents exceed the limit of 1"):
        read(HELLO, HELLO, limits=RequestLimits(max_messages=1))
    tools = read(tools=[{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]).tools
    with pytest.raises(InvalidRequest, match="2 tools exceed the limit of 1"):
        tools.read(tools.source, RequestLimits(max_tools=1))


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "parts", "text", "functionCall", "functionResponse", "name", "id",
                         "args", "response", "inlineData", "data", "contents", "thoughtSignature",
                         "generationConfig", "tools", "systemInstruction", "toolConfig", "mode",
                         "thinkingConfig", "functionDeclarations", "functionCallingConfig"]),
        inner, max_size=4),
    max_leaves=20,
))  # fmt: skip
def test_any_json_is_read_or_refused(value: Any) -> None:
    fields = value if isinstance(value, dict) else {"contents": value}
    with contextlib.suppress(InvalidRequest):
        request = read_request(json.dumps(fields).encode(), LIMITS, "m")
        request.tools.read(request.tools.source or b"[]", LIMITS)
