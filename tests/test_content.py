"""Content: frozen values, JSON in and out without loss."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import (
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Part,
    Text,
    Thought,
    Usage,
)
from windlass.content import encoded_once, is_own_call_id, new_call_id

names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
extras = st.dictionaries(names.map(lambda n: f"x_{n}") | st.just("extra"), values, max_size=2)
signatures = st.none() | st.text(max_size=5)
media = st.builds(InlineData, st.binary(max_size=8), names, extra=extras) | st.builds(
    FileData, names, st.none() | names, extra=extras
)
parts = (
    st.builds(Text, st.text(), signatures, extra=extras)
    | st.builds(Thought, st.text(), signatures, extra=extras)
    | media
    | st.builds(FunctionCall, names, st.text(), names, signatures, extra=extras)
    | st.builds(
        FunctionResponse,
        names,
        st.dictionaries(names, values, max_size=2),
        names,
        st.lists(media, max_size=2).map(tuple),
        extra=extras,
    )
    | st.builds(Opaque, names, st.dictionaries(names, values, max_size=2), extra=extras)
)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(parts, max_size=4).map(tuple),
    extras,
)


@given(messages)
def test_a_message_converts_to_json_and_back_without_loss(message: Message) -> None:
    assert Message.from_json(message.to_json()) == message


@given(parts)
def test_a_part_converts_to_json_values_and_back_without_loss(part: Any) -> None:
    assert Part.from_dict(part.to_dict()) == part


def test_unknown_fields_are_returned_unchanged() -> None:
    written = {
        "role": "assistant",
        "parts": [
            {"type": "text", "text": "hi", "citation": {"page": 3}},
            {
                "type": "function_response",
                "name": "plot",
                "response": {"output": 1},
                "parts": [{"type": "file_data", "uri": "gs://x", "etag": "e"}],
                "billed": True,
            },
        ],
        "latency": 7,
    }
    message = Message.from_dict(written)
    assert message.parts[0].extra == {"citation": {"page": 3}}
    assert message.to_dict() == written


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"type": "text"}, "text"),
        ({"type": "text", "text": 3}, r"\$\.text"),
        ({"type": "nonsense"}, "nonsense"),
        ({"text": "x"}, "type"),
    ],
)
def test_a_wrong_part_is_refused_by_the_name_of_its_field(value: Any, named: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=named):
        Part.from_dict(value)


def test_the_short_constructors_create_each_part() -> None:
    call = Part.from_function_call("get_weather", {"city": "Paris"})
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})
    assert is_own_call_id(call.id)
    response = Part.from_function_response("get_weather", {"result": 22}, id=call.id)
    assert response.output == {"result": 22}
    assert Message.user("Look:", Part.from_bytes(b"x", "image/png")).text == "Look:"
    assert Part.from_thought("hm") == Thought("hm")
    assert Part.from_text("hm") == Text("hm")
    assert Part.from_uri("gs://b/x.png", "image/png").mime_type == "image/png"


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Text("a").text = "b"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ('{"a": 1}', {"a": 1}, None),
        ("", {}, None),
        ("  ", {}, None),
        ('{"a": ', '{"a": ', "not valid JSON"),
        ("[1]", "[1]", "not a JSON object"),
        ("[" * 100_000, "[" * 100_000, "not valid JSON"),
    ],
)
def test_arguments_are_a_dict_or_the_raw_text_with_an_error(
    text: str, arguments: Any, error: str | None
) -> None:
    call = FunctionCall("f", text)
    assert call.arguments == arguments
    assert (call.error is None) if error is None else error in (call.error or "")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"output": "plain"}, "plain"),
        ({"output": {"a": [1, None]}}, '{"a":[1,null]}'),
        ({"output": None}, "null"),
        ({"error": "no"}, '{"error":"no"}'),
        ({"temperature": 22}, '{"temperature":22}'),
        ({"error": "no", "code": 3}, '{"error":"no","code":3}'),
    ],
)
def test_a_response_as_text_is_its_string_or_compact_json(response: Any, text: str) -> None:
    assert FunctionResponse("f", response).text == text


def test_generated_call_ids_differ_from_a_providers_ids() -> None:
    assert is_own_call_id(new_call_id())
    assert not is_own_call_id("call_AbC1234567890123456789Xy")
    assert not is_own_call_id("")
    assert new_call_id() != new_call_id()


def test_usages_can_be_added() -> None:
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_a_message_is_encoded_once_for_each_wire() -> None:
    made: list[str] = []

    def encode(message: Message) -> bytes:
        made.append(message.role)
        return message.role.encode()

    message = Message.user("hi")
    assert {encoded_once(message, "a", encode) for _ in range(3)} == {b"user"}
    encoded_once(message, "b", encode)
    assert made == ["user", "user"]
    assert message == Message.user("hi")
