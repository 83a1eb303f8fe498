"""Requests to Gemini, checked against google-genai's own types, which forbid unknown fields."""

import base64
import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_wires import HELLO, WEATHER

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
    new_call_id,
)
from windlass.errors import ConfigError
from windlass.model import ModelRequest, Settings, ToolChoice
from windlass.wires.gemini import write_request as wire
from windlass.wires.gemini.messages import PLACEHOLDER_SIGNATURE

SIGNATURE = base64.b64encode(b"signature").decode()


def sent(
    request: ModelRequest, *, ids: bool = True, signed: bool = False, form: Any = "json"
) -> Any:
    """The body, every field of which the SDK's types must know."""
    encoder = wire.RequestEncoder(ids=ids, signed=signed, schema_form=form)
    body = json.loads(encoder.body(request))
    checked = dict(body)
    for content in checked.pop("contents"):
        types.Content.model_validate_json(json.dumps(content))
        assert content["parts"]
    types.Content.model_validate_json(json.dumps(checked.pop("systemInstruction", {"parts": []})))
    for tool in checked.pop("tools", []):
        types.Tool.model_validate_json(json.dumps(tool))
    types.ToolConfig.model_validate_json(json.dumps(checked.pop("toolConfig", {})))
    types.GenerationConfig.model_validate_json(json.dumps(checked.pop("generationConfig", {})))
    assert not checked
    return body


def contents(*messages: Message, **options: Any) -> list[Any]:
    return sent(ModelRequest(messages), **options)["contents"]


def config(choice: ToolChoice, *tools: Any) -> Any:
    body = sent(ModelRequest(HELLO.messages, tools or (WEATHER,), choice))
    return body.get("toolConfig", {}).get("functionCallingConfig")


CALLS = Message.assistant(
    Thought("Hm", SIGNATURE),
    Text("I look."),
    FunctionCall("f", '{"x": 1}', "id-1", SIGNATURE),
    FunctionCall("g", "", "id-2"),
)
RESULTS = Message.tool(
    [
        FunctionResponse("f", {"output": {"sky": "clear"}}, "id-1"),
        FunctionResponse("g", {"error": "no"}, "id-2"),
    ]
)


def test_roles_and_the_system_s_place() -> None:
    body = sent(
        ModelRequest((Message.system("a"), Message.user("b"), CALLS, RESULTS, Message.system("c")))
    )
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "c"}]}
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]


def test_parallel_calls_are_together_and_their_answers_in_order() -> None:
    _, called, answered = contents(Message.user("go"), CALLS, RESULTS)
    names = [part["functionCall"]["name"] for part in called["parts"] if "functionCall" in part]
    assert names == ["f", "g"]
    assert [part["functionResponse"]["name"] for part in answered["parts"]] == ["f", "g"]


def test_answers_in_several_messages_still_make_one_turn() -> None:
    first, second = (Message.tool([response]) for response in RESULTS.responses)
    _, answered, asked = contents(CALLS, first, second, Message.user("and?"))
    assert len(answered["parts"]) == 2
    assert asked["parts"] == [{"text": "and?"}]


def test_two_user_turns_are_not_merged() -> None:
    assert len(contents(Message.user("a"), Message.user("b"))) == 2


def test_a_signature_stays_on_exactly_its_part() -> None:
    (content,) = contents(CALLS)
    signatures = [part.get("thoughtSignature") for part in content["parts"]]
    assert signatures == [SIGNATURE, None, SIGNATURE, None]
    assert content["parts"][0] == {"text": "Hm", "thought": True, "thoughtSignature": SIGNATURE}


def test_a_signature_on_an_empty_text_is_sent_though_empty_texts_are_not() -> None:
    message = Message.assistant(Text(""), Text("Hi"), Text("", SIGNATURE))
    (content,) = contents(message)
    assert content["parts"] == [{"text": "Hi"}, {"text": "", "thoughtSignature": SIGNATURE}]


def test_history_of_another_model_gets_the_placeholder_on_its_first_call() -> None:
    foreign = Message.assistant(FunctionCall("f", "{}", "a"), FunctionCall("g", "{}", "b"))
    (content,) = contents(foreign, signed=True)
    signatures = [part.get("thoughtSignature") for part in content["parts"]]
    assert signatures == [PLACEHOLDER_SIGNATURE, None]


def test_a_signed_step_gets_no_placeholder() -> None:
    (content,) = contents(CALLS, signed=True)
    assert PLACEHOLDER_SIGNATURE not in json.dumps(content)


def test_models_before_gemini_3_need_no_placeholder() -> None:
    foreign = Message.assistant(FunctionCall("f", "{}", "a"))
    assert "thoughtSignature" not in json.dumps(contents(foreign))


@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-2.5-flash", False),
        ("gemini-1.5-pro", False),
        ("gemini-3-pro-preview", True),
        ("gemini-3.1-flash", True),
        ("gemini-10-pro", True),
        ("gemini-flash-latest", True),
        ("gemma-3-27b", False),
        ("projects/p/locations/l/publishers/google/models/gemini-3-pro", True),
    ],
)
def test_which_models_want_signatures(model: str, signed: bool) -> None:
    assert wire.is_signed_model(model) is signed


def test_an_id_is_echoed_when_it_was_received() -> None:
    _, called, answered = contents(Message.user("go"), CALLS, RESULTS)
    assert called["parts"][2]["functionCall"]["id"] == "id-1"
    assert [part["functionResponse"]["id"] for part in answered["parts"]] == ["id-1", "id-2"]


def test_an_id_that_we_made_up_is_not_sent() -> None:
    own = new_call_id()
    called, answered = contents(
        Message.assistant(FunctionCall("f", "{}", own)),
        Message.tool([FunctionResponse("f", {"output": 1}, own)]),
    )
    assert own not in json.dumps([called, answered])


def test_vertex_gets_no_ids() -> None:
    assert '"id"' not in json.dumps(contents(CALLS, RESULTS, ids=False))


def test_the_response_is_an_object_always() -> None:
    (answered,) = contents(RESULTS)
    found = [part["functionResponse"]["response"] for part in answered["parts"]]
    assert found == [{"output": {"sky": "clear"}}, {"error": "no"}]


def test_media_in_a_response_go_with_it() -> None:
    image = InlineData(
        b"x", "image/png", extra={"gemini": {"inlineData": {"displayName": "a.png"}}}
    )
    file = FileData("gs://b/a.pdf", "application/pdf")
    response = FunctionResponse("f", {"output": {"$ref": "a.png"}}, "i", (image, file))
    (answered,) = contents(Message.tool([response]), signed=True)
    blob = {"mimeType": "image/png", "data": "eA==", "displayName": "a.png"}
    assert answered["parts"][0]["functionResponse"]["parts"] == [
        {"inlineData": blob},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf"}},
    ]


def test_images_are_parts() -> None:
    message = Message.user("Look:", InlineData(b"x", "image/png"), FileData("https://x/y.png"))
    (content,) = contents(message)
    assert content["parts"] == [
        {"text": "Look:"},
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}},
        {"fileData": {"fileUri": "https://x/y.png"}},
    ]


def test_half_a_character_in_a_file_s_name_does_not_break_a_request() -> None:
    response = FunctionResponse("ls", {"output": ["caf\udce9"]}, "c")
    (content,) = contents(Message.tool([response]))
    assert content["parts"][0]["functionResponse"]["response"] == {"output": ["caf\ufffd"]}


def test_unreadable_arguments_of_another_model_are_still_an_object() -> None:
    (content,) = contents(Message.assistant(FunctionCall("f", '{"x": ', "i")))
    assert content["parts"][0]["functionCall"]["args"] == {"arguments": '{"x": '}


def test_a_model_s_part_of_another_provider_becomes_text_and_a_user_s_is_refused() -> None:
    foreign = Opaque("openai", {"type": "refusal", "refusal": "No."})
    (content,) = contents(Message.assistant(foreign))
    assert content["parts"] == [{"text": "No."}]
    for data, named in (
        ({"type": "video_url", "video_url": {"url": "https://x"}}, "openai (video_url)"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "openai (file.file_id)"),
    ):
        with pytest.raises(ConfigError) as caught:
            contents(Message.user("a"), Message.user("b", Opaque("openai", data)))
        assert str(caught.value) == (
            f"messages[1].parts[1]: the Gemini wire does not support a part of {named} in a"
            " message of the role 'user'"
        )


def test_an_empty_message_is_left_out() -> None:
    assert contents(Message.user("a"), Message.assistant("")) == [
        {"role": "user", "parts": [{"text": "a"}]}
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("none"), {"mode": "NONE"}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("required", ("a",)), {"mode": "ANY", "allowedFunctionNames": ["a"]}),
        (
            ToolChoice("required", ("a", "b")),
            {"mode": "ANY", "allowedFunctionNames": ["a", "b"]},
        ),
        (ToolChoice("auto", ("a",)), {"mode": "VALIDATED", "allowedFunctionNames": ["a"]}),
    ],
)
def test_every_tool_choice(choice: ToolChoice, expected: Any) -> None:
    assert config(choice) == expected


def test_a_choice_without_functions_is_not_sent() -> None:
    assert config(ToolChoice("required"), GoogleSearch()) is None
    assert "toolConfig" not in sent(ModelRequest(HELLO.messages, (), ToolChoice("required")))


def test_functions_are_declared_together_with_their_json_schema() -> None:
    other = FunctionDeclaration("nothing")
    body = sent(ModelRequest(HELLO.messages, (WEATHER, GoogleSearch(), other)))
    functions, search = body["tools"]
    assert search == {"googleSearch": {}}
    weather, nothing = functions["functionDeclarations"]
    assert weather == {
        "name": "get_weather",
        "description": "Current weather.",
        "parametersJsonSchema": WEATHER.parameters,
    }
    assert "description" not in nothing


def test_the_older_form_of_declarations() -> None:
    body = sent(ModelRequest(HELLO.messages, (WEATHER, FunctionDeclaration("n"))), form="openapi")
    weather, nothing = body["tools"][0]["functionDeclarations"]
    assert weather["parameters"] == {
        "type": "OBJECT",
        "properties": {"city": {"type": "STRING"}},
        "required": ["city"],
    }
    assert nothing == {"name": "n"}


def test_settings() -> None:
    settings = Settings(0.0, 0.5, 7, 100, ("a",), 0, {"type": "object"})
    body = sent(ModelRequest(HELLO.messages, settings=settings))
    assert body["generationConfig"] == {
        "temperature": 0.0,
        "topP": 0.5,
        "topK": 7,
        "maxOutputTokens": 100,
        "stopSequences": ["a"],
        "seed": 0,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }
    old = sent(ModelRequest(HELLO.messages, settings=settings), form="openapi")
    assert old["generationConfig"]["responseSchema"] == {"type": "OBJECT"}


def test_any_json_needs_no_schema() -> None:
    body = sent(ModelRequest(HELLO.messages, settings=Settings(response_schema={})))
    assert body["generationConfig"] == {"responseMimeType": "application/json"}


def test_parallel_tool_calls_cannot_be_expressed() -> None:
    body = sent(ModelRequest(HELLO.messages, (WEATHER,), parallel_tool_calls=False))
    assert set(body) == {"contents", "tools"}


def test_extra_fields_are_merged_deep() -> None:
    extra = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}, "x": 1}
    settings = Settings(temperature=0.5)
    encoder = wire.RequestEncoder(ids=True, signed=False)
    body = json.loads(encoder.body(ModelRequest(HELLO.messages, settings=settings, extra=extra)))
    thinking = {"thinkingBudget": 0}
    assert body["generationConfig"] == {"temperature": 0.5, "thinkingConfig": thinking}
    assert body["x"] == 1


def test_fifty_rounds_encode_every_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Message] = []
    real = wire.encode_parts

    def counted(message: Message, **options: Any) -> Any:
        encoded.append(message)
        return real(message, **options)

    monkeypatch.setattr(wire, "encode_parts", counted)
    encoder = wire.RequestEncoder(ids=True, signed=True)
    messages = [Message.system("s"), Message.user("go")]
    for number in range(50):
        body = json.loads(encoder.body(ModelRequest(messages, (WEATHER,))))
        assert len(body["contents"]) == len(messages) - 1
        messages.append(Message.assistant(FunctionCall("get_weather", "{}", f"c{number}")))
        result = FunctionResponse("get_weather", {"output": number}, f"c{number}")
        messages.append(Message.tool([result]))
    assert len(encoded) == len(messages) - 2


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
signatures = st.none() | st.binary(min_size=1, max_size=9).map(
    lambda raw: base64.b64encode(raw).decode()
)
our_parts = (
    st.builds(Text, texts, signatures)
    | st.builds(Thought, texts, signatures)
    | st.builds(InlineData, st.binary(max_size=9), st.just("image/png"))
    | st.builds(FileData, texts, st.none() | st.just("image/png"))
    | st.builds(FunctionCall, texts, texts, texts, signatures)
    | st.builds(FunctionResponse, texts, st.dictionaries(texts, texts), texts)
)
roles = st.sampled_from(["system", "user", "assistant", "tool"])
our_messages = st.builds(
    lambda role, ps: Message(role, tuple(ps)), roles, st.lists(our_parts, max_size=4)
)


@given(st.lists(our_messages, max_size=4), st.booleans(), st.booleans())
def test_every_conversation_is_a_request_that_the_sdk_reads(
    messages: list[Message], ids: bool, signed: bool
) -> None:
    sent(ModelRequest(messages), ids=ids, signed=signed)


def test_a_part_of_another_wire_in_a_question_is_an_error() -> None:
    part = Opaque("openai", {"type": "file", "file": {"file_id": "file-1"}})
    encoder = wire.RequestEncoder(ids=True, signed=False)
    with pytest.raises(ConfigError, match="does not support a part of openai"):
        encoder.body(ModelRequest(messages=(Message.user("See:", part),)))
