"""Gemini's contents to messages and back."""

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
    is_own_call_id,
)
from windlass.errors import ConfigError
from windlass.wires.gemini.messages import decode_message, decode_messages, encode_message


def content(role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts), **more}


@pytest.mark.parametrize(
    "message",
    [
        content("user", {"text": "Hi"}),
        content("user", {"text": "a"}, {"text": "b"}),
        content("system", {"text": "s"}),
        content("model", {"text": "t", "thought": True, "thoughtSignature": "c2ln"}),
        content("model", {"text": "", "thoughtSignature": "c2ln"}),
        content("model", {"text": "a", "partMetadata": {"k": 1}}),
        content("user", {"inlineData": {"mimeType": "image/png", "data": "eA=="}}),
        content(
            "user",
            {
                "inlineData": {"mimeType": "video/mp4", "data": "eA==", "displayName": "n"},
                "videoMetadata": {"fps": 1},
            },
        ),
        content("user", {"fileData": {"mimeType": "image/png", "fileUri": "gs://a"}}),
        content("user", {"fileData": {"fileUri": "gs://a"}}),
        content(
            "model",
            {
                "functionCall": {"id": "i", "name": "f", "args": {"x": [1]}, "new": 1},
                "thoughtSignature": "c2ln",
            },
            {"functionCall": {"id": "j", "name": "g", "args": {}}},
        ),
        content(
            "user",
            {
                "functionResponse": {
                    "id": "i",
                    "name": "f",
                    "response": {"output": 1},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "eA=="}}],
                    "scheduling": "SILENT",
                }
            },
            {"text": "and?"},
        ),
        content("user", {"functionResponse": {"name": "f", "response": {}, "parts": [{"odd": 1}]}}),
        content("function", {"functionResponse": {"name": "f", "response": {}}}),
        content("model", {"executableCode": {"code": "1"}, "thoughtSignature": "c2ln"}),
        content("model", {"odd": {"a": None}}),
        content("user", {"text": "a"}, unknown=[1]),
    ],
)
def test_a_message_comes_back_unchanged(message: dict[str, Any]) -> None:
    assert encode_message(decode_message(message)) == message


def test_each_kind_has_its_value() -> None:
    message = decode_message(
        content(
            "model",
            {"text": "a"},
            {"text": "b", "thought": True},
            {"inline_data": {"mime_type": "image/png", "data": b"x"}},
            {"file_data": {"file_uri": "gs://a"}},
            {"function_call": {"name": "f", "args": {"snake_case": 1}}},
            {"new_kind": {"a_b": 1}},
        )
    )
    assert message.role == "assistant"
    assert message.parts[:4] == (
        Text("a"),
        Thought("b"),
        InlineData(b"x", "image/png"),
        FileData("gs://a"),
    )
    call = message.parts[4]
    assert isinstance(call, FunctionCall)
    assert (call.name, call.arguments) == ("f", {"snake_case": 1})
    assert is_own_call_id(call.id)
    assert message.parts[5] == Opaque("gemini", {"newKind": {"a_b": 1}})


def test_base64_may_be_the_one_of_addresses_and_unpadded() -> None:
    blob = {"inlineData": {"mimeType": "image/png", "data": "-_8"}}
    assert decode_message(content("user", blob)).parts == (InlineData(b"\xfb\xff", "image/png"),)


def test_responses_without_ids_get_those_of_their_calls() -> None:
    asked, answered = decode_messages(
        [
            content(
                "model",
                {"functionCall": {"name": "f"}},
                {"functionCall": {"name": "g", "id": "i"}},
                {"functionCall": {"name": "f"}},
            ),
            content(
                "user",
                {"functionResponse": {"name": "f", "response": {"output": 1}}},
                {"functionResponse": {"name": "g", "id": "i", "response": {"output": 2}}},
                {"functionResponse": {"name": "f", "response": {"output": 3}}},
                {"functionResponse": {"name": "stray", "response": {}}},
            ),
        ]
    )
    assert answered.role == "tool"
    assert [r.id for r in answered.responses] == [*(c.id for c in asked.calls), ""]


def test_strings_are_texts_and_the_user_speaks_by_default() -> None:
    assert decode_message({"parts": ["Hi"]}) == Message.user("Hi")


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (1, "contents[0]"),
        (content("wizard"), "contents[0].role"),
        ({"role": "user"}, "contents[0].parts"),
        (content("user", 3), "contents[0].parts[0]"),
        (content("user", {"text": 3}), "contents[0].parts[0].text"),
        (content("user", {"inlineData": 3}), "contents[0].parts[0].inlineData"),
        (content("user", {"inlineData": {"data": "?"}}), "contents[0].parts[0].inlineData.data"),
        (content("user", {"fileData": {}}), "contents[0].parts[0].fileData.fileUri"),
        (content("user", {"functionCall": {}}), "contents[0].parts[0].functionCall.name"),
        (
            content("user", {"functionResponse": {"name": "f", "parts": [1]}}),
            "contents[0].parts[0].functionResponse.parts[0]",
        ),
    ],
)
def test_bad_input_is_named_by_its_place(message: Any, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decode_messages([message])
    assert str(raised.value).startswith(place)


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
signed = st.fixed_dictionaries(
    {}, optional={"thoughtSignature": st.just("c2ln"), "xUnknown": texts}
)
kinds = (
    texts.map(lambda text: {"text": text})
    | texts.map(lambda text: {"text": text, "thought": True})
    | st.just({"inlineData": {"mimeType": "image/png", "data": "eA=="}})
    | texts.map(lambda uri: {"fileData": {"fileUri": uri}})
    | st.builds(
        lambda name, args: {"functionCall": {"id": "i", "name": name, "args": args}},
        texts,
        st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3),
    )
    | texts.map(lambda name: {"functionResponse": {"id": "i", "name": name, "response": {}}})
    | texts.map(lambda code: {"executableCode": {"code": code}})
)
parts = st.builds(lambda kind, more: {**kind, **more}, kinds, signed)


@given(st.sampled_from(["user", "model", "system"]), st.lists(parts, max_size=5))
def test_decoding_and_encoding_content_loses_nothing(role: str, listed: list[Any]) -> None:
    message = content(role, *listed)
    assert encode_message(decode_message(message)) == message


def test_the_sdk_s_own_content_parses() -> None:
    made = types.Content(
        role="model",
        parts=[
            types.Part(text="a", thought=True),
            types.Part(function_call=types.FunctionCall(name="f", args={"x": 1}, id="i")),
            types.Part(inline_data=types.Blob(data=b"\xfb\xff", mime_type="image/png")),
        ],
    )
    by_dict = decode_message(made.model_dump(exclude_none=True))
    by_json = decode_message(made.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert by_dict == by_json
    assert by_dict.parts[1:] == (
        FunctionCall("f", '{"x":1}', "i"),
        InlineData(b"\xfb\xff", "image/png"),
    )


def test_ids_are_left_out_where_they_are_unknown() -> None:
    message = Message.tool([FunctionResponse("f", {"output": 1}, "i")])
    assert "id" not in encode_message(message, ids=False)["parts"][0]["functionResponse"]
