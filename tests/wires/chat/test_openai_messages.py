"""Encoding and decoding of chat-completions messages."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
)
from windlass.errors import ConfigError
from windlass.wires.chat.messages import (
    decode_message,
    decode_messages,
    encode_message,
    encode_message_json,
)

PNG = base64.b64encode(b"\x89PNG").decode()


def again(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return [wire for message in decode_messages(messages) for wire in encode_message(message)]


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


ASKED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "not json"}},
    ],
}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": ""},
        {"role": "user", "content": "Hi", "name": "bob", "x_unknown": [1]},
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be brief."},
        user({"type": "text", "text": "a"}),
        user({"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
        user({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}),
        user({"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}),
        user({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}),
        user({"type": "image_url", "image_url": {"url": f"data:audio/odd;base64,{PNG}"}}),
        user({"type": "image_url", "image_url": {"url": "u"}, "prompt_cache_breakpoint": {"a": 1}}),
        user({"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}}),
        user({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav", "x": 1}}),
        user(
            {
                "type": "file",
                "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "a.pdf"},
            }
        ),
        user({"type": "file", "file": {"file_data": f"data:image/png;base64,{PNG}"}}),
        user({"type": "file", "file": {"file_id": "file-1"}}),
        user({"type": "hologram", "hologram": {"a": [1, None]}}),
        {"role": "assistant", "content": "Hi"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": "Hi", "refusal": "no", "audio": {"id": "a"}},
        {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"},
        {"role": "assistant", "content": "Hi", "reasoning": "Hm", "reasoning_details": [{"a": 1}]},
        ASKED,
        {**ASKED, "content": "Let me look."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}", "strict": True},
                    "extra_content": {"google": {"thought_signature": "sig"}},
                },
                {"id": "d", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    ],
)
def test_a_message_survives_a_round_trip(message: dict[str, Any]) -> None:
    assert again(message) == [message]


def test_a_conversation_survives_a_round_trip() -> None:
    conversation: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        ASKED,
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "h", "arguments": "{}"}},
        {"role": "function", "name": "h", "content": "three"},
        {"role": "assistant", "content": "done"},
    ]
    assert again(*conversation) == conversation


def test_tool_messages_become_one_and_find_their_names() -> None:
    _, results = decode_messages(
        [
            ASKED,
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two", "name": "ignored"},
        ]
    )
    assert [(r.name, r.id, r.output) for r in results.responses] == [
        ("f", "c1", "one"),
        ("g", "c2", "two"),
    ]


def test_a_legacy_result_answers_the_last_call_of_its_name() -> None:
    call: dict[str, Any] = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    asked, answered = decode_messages([call, {"role": "function", "name": "f", "content": "x"}])
    assert answered.responses[0].id == asked.calls[0].id


def test_short_forms_are_accepted() -> None:
    assert decode_message({"role": "user", "content": {"text": "Hi"}}) == Message.user("Hi")
    image = user({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}})
    assert decode_message(image).parts == (InlineData(b"\x89PNG", "image/png"),)
    address = user({"type": "image_url", "image_url": {"url": "https://x/y.png"}})
    assert decode_message(address).parts == (FileData("https://x/y.png"),)
    plain = user({"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}})
    assert decode_message(plain).parts == (InlineData(b"<svg/>", "image/svg+xml"),)
    unknown = {"type": "video", "video": 1}
    assert decode_message(user(unknown)).parts == (Opaque("openai", unknown),)


def test_thoughts_are_read_and_a_signature_too() -> None:
    message = decode_message({"role": "assistant", "content": "a", "reasoning_content": "b"})
    assert message.parts == (Thought("b"), Text("a"))
    extra = {"google": {"thought_signature": "sig"}}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    (decoded,) = decode_message({"role": "assistant", "tool_calls": [call]}).calls
    assert decoded.signature == "sig"


def test_arguments_that_are_an_object_become_their_text() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"x": 1}}}
    assert decode_message({"role": "assistant", "tool_calls": [call]}).calls[0].json == '{"x":1}'


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({}, "messages[0].role"),
        ({"role": "wizard"}, "messages[0].role"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        (user(3), "messages[0].content[0]"),
        (user({"type": "text"}), "messages[0].content[0].text"),
        (user({"text": "a"}), "messages[0].content[0].type"),
        (user({"type": "image_url"}), "messages[0].content[0].image_url"),
        (
            user({"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}),
            "messages[0].content[0].image_url.url",
        ),
        (
            user({"type": "image_url", "image_url": {"url": "data:image/png"}}),
            "messages[0].content[0].image_url.url",
        ),
        (
            user({"type": "input_audio", "input_audio": {"data": "é", "format": "wav"}}),
            "messages[0].content[0].input_audio.data",
        ),
        ({"role": "assistant", "tool_calls": [1]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"function": {}}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"role": "assistant", "function_call": {}}, "messages[0].function_call.name"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "tool", "tool_call_id": "c9", "content": "x"}, "no earlier call has the id 'c9'"),
        ({"role": "function", "content": "x"}, "messages[0].name"),
        ("hello", "messages[0]: must be an object"),
    ],
)
def test_bad_input_is_named_by_its_place(message: Any, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decode_messages([message])
    assert place in str(raised.value)


def test_an_empty_assistant_message_is_not_null() -> None:
    assert encode_message(Message.assistant(Thought("hm"))) == [
        {"role": "assistant", "content": ""}
    ]


def test_half_a_character_in_a_file_s_name_does_not_break_a_request() -> None:
    message = Message.tool([FunctionResponse("ls", {"output": "caf\udce9"}, "c")])
    assert json.loads(encode_message_json(message))["content"] == "caf\ufffd"


def test_thoughts_of_other_wires_are_not_sent() -> None:
    message = Message.assistant(Thought("secret", "sig"), "Hi")
    assert encode_message(message) == [{"role": "assistant", "content": "Hi"}]


def test_a_model_s_part_of_another_provider_becomes_text() -> None:
    message = Message.assistant("Hi", Opaque("gemini", {"executableCode": {"code": "1"}}))
    (encoded,) = encode_message(message)
    assert encoded["content"] == (
        'Hi\n[gemini executableCode.code] {"executableCode":{"code":"1"}}\n'
    )


def test_a_signature_of_another_wire_is_not_invented_here() -> None:
    (wire,) = encode_message(Message.assistant(FunctionCall("f", "{}", "c", "sig")))
    assert "extra_content" not in wire["tool_calls"][0]


def test_no_arguments_are_an_empty_object() -> None:
    (wire,) = encode_message(Message.assistant(FunctionCall("f", "", "c")))
    assert wire["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_assistant_s_texts_are_one_string() -> None:
    message = Message.assistant("a", FunctionCall("f", "{}", "c"), Text("b", "sig"))
    assert encode_message(message)[0]["content"] == "ab"


@pytest.mark.parametrize(
    ("response", "content"),
    [
        ({"output": "words"}, "words"),
        ({"output": {"a": [1, 2]}}, '{"a":[1,2]}'),
        ({"error": "broke"}, '{"error":"broke"}'),
        ({"any": "object"}, '{"any":"object"}'),
        ({"output": None}, "null"),
    ],
)
def test_a_result_is_text_or_compact_json(response: dict[str, Any], content: str) -> None:
    message = Message.tool([FunctionResponse("f", response, "c")])
    assert encode_message(message) == [{"role": "tool", "tool_call_id": "c", "content": content}]


def test_media_of_a_result_follow_all_results() -> None:
    image = InlineData(b"\x89PNG", "image/png")
    results = [
        FunctionResponse("f", {"output": "see"}, "c1", (image,)),
        FunctionResponse("g", {"output": "ok"}, "c2"),
    ]
    first, second, shown = encode_message(Message.tool(results))
    assert (first["tool_call_id"], second["tool_call_id"]) == ("c1", "c2")
    assert shown["role"] == "user"
    assert shown["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


def test_text_beside_results_follows_them() -> None:
    message = Message("tool", (Text("and?"), FunctionResponse("f", {"output": "x"}, "c")))
    assert [wire["role"] for wire in encode_message(message)] == ["tool", "user"]


@pytest.mark.parametrize(
    ("mime", "kind", "form"),
    [
        ("image/png", "image_url", None),
        ("audio/wav", "input_audio", "wav"),
        ("audio/x-wav", "input_audio", "wav"),
        ("audio/wave", "input_audio", "wav"),
        ("audio/mpeg", "input_audio", "mp3"),
        ("application/pdf", "file", None),
    ],
)
def test_bytes_are_encoded_by_their_kind(mime: str, kind: str, form: str | None) -> None:
    (wire,) = encode_message(Message.user(InlineData(b"x", mime)))
    assert wire["content"][0]["type"] == kind
    assert wire["content"][0][kind].get("format") == form


def test_urls_that_this_wire_does_not_support_are_refused() -> None:
    with pytest.raises(ConfigError, match="application/pdf"):
        encode_message(Message.user(FileData("https://x/y.pdf", "application/pdf")))


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
data = st.binary(max_size=20)
json_values = st.none() | st.booleans() | st.integers(-9, 9) | texts
unknown = st.dictionaries(st.sampled_from(["x_a", "x_b"]), st.integers() | texts, max_size=2)


def data_url(mime: str) -> st.SearchStrategy[str]:
    return data.map(lambda raw: f"data:{mime};base64,{base64.b64encode(raw).decode()}")


text_parts = st.builds(lambda text, more: {"type": "text", "text": text, **more}, texts, unknown)
image_parts = st.builds(
    lambda url, inner, more: {"type": "image_url", "image_url": {"url": url, **inner}, **more},
    data_url("image/png") | texts.map(lambda text: f"https://{text}"),
    unknown,
    unknown,
)
file_parts = st.builds(
    lambda url, inner: {"type": "file", "file": {"file_data": url, **inner}},
    data_url("image/png") | data_url("application/pdf"),
    unknown,
)
parts = text_parts | image_parts | file_parts | unknown.map(lambda more: {"type": "odd", **more})
spoken = st.builds(
    lambda role, content, more: {"role": role, "content": content, **more},
    st.sampled_from(["user", "system", "developer", "assistant"]),
    texts | st.lists(parts, min_size=1, max_size=4),
    unknown,
)


@given(st.lists(spoken, max_size=4))
def test_decoding_and_encoding_loses_nothing(messages: list[dict[str, Any]]) -> None:
    assert again(*messages) == messages


calls = st.builds(
    FunctionCall,
    st.sampled_from(["f", "g"]),
    texts | st.dictionaries(texts, json_values).map(json.dumps),
    st.uuids().map(str),
)
our_parts = (
    texts.map(Text)
    | calls
    | st.builds(InlineData, data, st.sampled_from(["image/png", "audio/wav"]))
)


@given(st.lists(our_parts, max_size=5))
def test_our_own_messages_survive_the_wire(ours: list[AnyPart]) -> None:
    message = Message("assistant", tuple(ours))
    (wire,) = encode_message(message)
    found = decode_message(json.loads(json.dumps(wire)))
    assert found.text == message.text
    assert [(c.id, c.name) for c in found.calls] == [(c.id, c.name) for c in message.calls]
    assert [c.json for c in found.calls] == [c.json or "{}" for c in message.calls]
    media = [part for part in message.parts if isinstance(part, InlineData)]
    found_media = [part for part in found.parts if isinstance(part, InlineData)]
    assert [(m.data, m.mime_type) for m in found_media] == [(m.data, m.mime_type) for m in media]
