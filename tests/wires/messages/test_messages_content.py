"""Messages and content blocks of Anthropic: read and written without loss."""

import base64
from typing import Any

import msgspec
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
from windlass.jsontext import compact_json
from windlass.model import ModelRequest
from windlass.testing.anthropic_rules import check_messages_request, signature_of
from windlass.wires.messages.messages import (
    decode_messages,
    encode_blocks,
    for_other_wires,
    wire_call_id,
)
from windlass.wires.messages.write_request import RequestEncoder

PNG = base64.b64encode(b"png").decode()
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}


def read(*messages: Any, system: Any = None) -> tuple[Message, ...]:
    return decode_messages(messages, system)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


BLOCKS: dict[str, Any] = {
    "text": {"type": "text", "text": "Hi"},
    "text with a cache mark": {
        "type": "text",
        "text": "Hi",
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    },
    "image in base64": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    },
    "image at a URL": {
        "type": "image",
        "source": {"type": "url", "url": "https://example.com/a.png"},
    },
    "image in a file": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "document in base64": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
        "title": "A",
        "citations": {"enabled": True},
    },
    "document at a URL": {
        "type": "document",
        "source": {"type": "url", "url": "https://example.com/a"},
    },
    "document as text": {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "The text."},
        "context": "B",
    },
    "document of blocks": {
        "type": "document",
        "source": {"type": "content", "content": [{"type": "text", "text": "x"}]},
    },
    "search result": {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "x"}],
    },
    "a block of the future": {"type": "hologram", "data": [1]},
}
SPOKEN: dict[str, Any] = {
    "thinking": {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    "thinking that is omitted": {"type": "thinking", "thinking": "", "signature": "sig"},
    "redacted thinking": {"type": "redacted_thinking", "data": "xyz"},
    "a server tool": {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
    },
    "its result": {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "encrypted_content": "e"}],
    },
    "a call of an MCP server": {
        "type": "mcp_tool_use",
        "id": "mcptoolu_1",
        "name": "x",
        "server_name": "s",
        "input": {},
    },
    "the MCP server's result": {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_1",
        "is_error": False,
        "content": [{"type": "text", "text": "x"}],
    },
    "a compaction": {"type": "compaction", "content": "summary"},
    "text with citations": {
        "type": "text",
        "text": "Hi",
        "citations": [{"type": "char_location", "cited_text": "x"}],
    },
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_user_s_block_goes_back_as_it_came(kind: str) -> None:
    (message,) = read(user(BLOCKS[kind]))
    assert encode_blocks(message) == [BLOCKS[kind]]


@pytest.mark.parametrize("kind", SPOKEN)
def test_a_block_of_claude_goes_back_as_it_came(kind: str) -> None:
    (message,) = read(assistant({"type": "text", "text": "before"}, SPOKEN[kind]))
    assert encode_blocks(message)[1:] == [SPOKEN[kind]]


RESULTS: dict[str, Any] = {
    "a string": result("sunny"),
    "an error": result("no city", is_error=True),
    "text and an image": result([{"type": "text", "text": "x"}, BLOCKS["image in base64"]]),
    "text and a document": result([{"type": "text", "text": "x"}, BLOCKS["document in base64"]]),
    "an image alone": result([BLOCKS["image in base64"]]),
    "blocks of text": result([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    "a tool reference": result([{"type": "tool_reference", "tool_name": "f"}]),
    "a cache mark": result("x", cache_control={"type": "ephemeral"}),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_result_goes_back_as_it_came(kind: str) -> None:
    _, message = read(assistant(CALL), user(RESULTS[kind]))
    assert (message.role, message.responses[0].name) == ("tool", "f")
    assert encode_blocks(message) == [RESULTS[kind]]


def test_a_result_without_content_is_empty() -> None:
    _, message = read(assistant(CALL), user({"type": "tool_result", "tool_use_id": "toolu_1"}))
    assert message.responses[0].output == ""


def test_the_parts_of_a_result() -> None:
    _, message = read(assistant(CALL), user(RESULTS["text and an image"]))
    (response,) = message.responses
    assert response.output == "x"
    assert response.parts == (InlineData(b"png", "image/png"),)
    _, failed = read(assistant(CALL), user(RESULTS["an error"]))
    assert failed.responses[0].error == "no city"


def test_results_become_a_message_of_their_own_in_call_order() -> None:
    second = {**CALL, "id": "toolu_2", "name": "g"}
    answers = [{**result("2"), "tool_use_id": "toolu_2"}, result("1")]
    _, results, said = read(
        assistant(CALL, second), user({"type": "text", "text": "Go on."}, *answers)
    )
    assert [each.name for each in results.responses] == ["f", "g"]
    assert (said.role, said.text) == ("user", "Go on.")


def test_a_result_of_no_call_is_named_unless_the_conversation_is_a_part() -> None:
    with pytest.raises(ConfigError, match=r"messages\[0\].content\[0\].tool_use_id: no earlier"):
        read(user(result("x")))
    (message,) = decode_messages([user(result("x"))], whole=False)
    assert message.responses[0].id == "toolu_1"


def test_the_system_prompt_is_a_string_or_blocks_and_may_come_in_the_middle() -> None:
    marked = BLOCKS["text with a cache mark"]
    messages = read(
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": [{"type": "text", "text": "Now be brief."}]},
        system=[{"type": "text", "text": "x-anthropic-billing-header: a"}, marked],
    )
    assert [message.role for message in messages] == ["system", "user", "system"]
    assert encode_blocks(messages[0])[1] == marked
    assert read({"role": "user", "content": "Hi"}, system="Be kind.")[0] == Message.system(
        "Be kind."
    )


def test_changes_of_tools_in_the_history_are_kept_and_not_refused() -> None:
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
    _, message = read({"role": "user", "content": "Hi"}, {"role": "system", "content": [change]})
    assert encode_blocks(message) == [change]


def test_claudes_own_blocks_are_text_or_left_out_for_other_models() -> None:
    messages = read(
        user(BLOCKS["search result"], BLOCKS["image in base64"], BLOCKS["image in a file"]),
        assistant(SPOKEN["redacted thinking"], {"type": "text", "text": "x"}),
        {"role": "system", "content": [{"type": "tool_removal", "tool": {}}]},
    )
    first, second = for_other_wires(messages)
    assert isinstance(first.parts[0], Text)
    assert "search_result" in first.parts[0].text
    assert isinstance(first.parts[1], InlineData)
    assert isinstance(first.parts[2], Opaque)  # another model cannot read it: it is refused
    assert second.parts == (Text("x"),)


def test_claude_s_signatures_are_invisible_to_other_wires() -> None:
    (message,) = read(assistant(SPOKEN["thinking"]))
    (thought,) = message.parts
    assert isinstance(thought, Thought)
    assert (thought.text, thought.signature) == ("Hm.", None)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "robot", "content": "x"}], "messages[0].role: must be one of"),
        ([{"role": "user"}], "messages[0].content: missing"),
        ([{"role": "user", "content": 5}], "messages[0].content: must be a string or a list"),
        ([user("x")], "messages[0].content[0]: must be an object"),
        ([user({"text": "x"})], "messages[0].content[0].type: must be a non-empty string"),
        ([user({"type": "text"})], "messages[0].content[0].text: must be a string"),
        ([assistant({"type": "tool_use", "id": "a"})], "messages[0].content[0].name"),
        ([user({"type": "image"})], "messages[0].content[0].source"),
        (
            [user({"type": "image", "source": {"type": "base64", "data": "*"}})],
            "messages[0].content[0].source.data: not base64",
        ),
        (["x"], "messages[0]: must be an object"),
    ],
)
def test_an_error_names_the_field(messages: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decode_messages(messages)
    assert str(raised.value).startswith(said)


def blocks(*parts: AnyPart, role: Any = "assistant") -> list[dict[str, Any]]:
    return encode_blocks(Message(role, parts))


def test_a_streamed_thought_and_its_signature_are_one_block() -> None:
    signed = Thought("", extra={"anthropic": {"signature": "s"}})
    assert blocks(Thought("a"), Thought("b"), signed, Text("c")) == [
        {"type": "thinking", "thinking": "ab", "signature": "s"},
        {"type": "text", "text": "c"},
    ]


def test_thoughts_of_other_models_are_left_out() -> None:
    foreign = Thought("x", "gemini-signature")
    assert blocks(Thought("a"), foreign, Text("c")) == [{"type": "text", "text": "c"}]


def test_foreign_thoughts_never_join_those_of_claude() -> None:
    ours = {"type": "thinking", "thinking": "x", "signature": "windlass:"}
    (message,) = read(assistant(ours, SPOKEN["thinking"]))
    assert encode_blocks(message) == [SPOKEN["thinking"]]


def test_citations_join_the_text_before_them() -> None:
    closing = Text("", extra={"anthropic": {"citations": [{"type": "x"}]}})
    assert blocks(Text("a"), closing, Text("b")) == [
        {"type": "text", "text": "a", "citations": [{"type": "x"}]},
        {"type": "text", "text": "b"},
    ]


def test_blank_texts_are_left_out() -> None:
    assert blocks(Text(" \n"), Text(""), Text("a")) == [{"type": "text", "text": "a"}]


def test_malformed_arguments_are_an_object() -> None:
    (block,) = blocks(FunctionCall("f", '{"a', "c1"))
    assert block["input"] == {"arguments": '{"a'}


def test_ids_of_other_providers_are_made_acceptable() -> None:
    (made,) = blocks(FunctionCall("f", "{}", "functions.f:0"))
    (answer,) = blocks(FunctionResponse("f", {"output": 1}, "functions.f:0"), role="tool")
    assert made["id"] == answer["tool_use_id"] == "functions_f_0"
    assert wire_call_id("toolu_1-a") == "toolu_1-a"


def test_values_and_errors_of_tools() -> None:
    def content(response: Any) -> Any:
        (block,) = blocks(FunctionResponse("f", response, "c"), role="tool")
        return block["content"], block.get("is_error")

    assert content({"output": {"a": 1}}) == ('{"a":1}', None)
    assert content({"output": "x"}) == ("x", None)
    assert content({"error": "bad"}) == ("bad", True)
    assert content({"result": 1}) == ('{"result":1}', None)


def test_media_that_claude_cannot_read() -> None:
    sound = InlineData(b"x", "audio/wav")
    with pytest.raises(ConfigError, match=r"parts\[0\]: .*supports images, PDF and text"):
        blocks(sound, role="user")
    response = FunctionResponse("f", {"output": "a sound"}, "c", (sound,))
    (block,) = blocks(response, role="tool")
    assert block["content"][1]["text"] == "[audio/wav: not supported by this model]"


def test_media_by_type() -> None:
    kinds = {
        "image/png": ("image", "base64"),
        "application/pdf": ("document", "base64"),
        "text/csv": ("document", "text"),
    }
    for mime, expected in kinds.items():
        (block,) = blocks(InlineData(b"x", mime), role="user")
        assert (block["type"], block["source"]["type"]) == expected
    (pdf,) = blocks(FileData("https://example.com/a.pdf"), role="user")
    assert pdf == {
        "type": "document",
        "source": {"type": "url", "url": "https://example.com/a.pdf"},
    }


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
json_texts = st.dictionaries(texts, st.integers() | texts, max_size=2)
images = st.builds(InlineData, st.binary(min_size=1, max_size=20), st.just("image/png"))
said = st.one_of(
    st.builds(Text, texts),
    st.builds(
        lambda text, signature: Thought(text, extra={"anthropic": {"signature": signature}}),
        texts,
        texts,
    ),
    st.builds(lambda data: Opaque("anthropic", {"type": "redacted_thinking", "data": data}), texts),
)
asked = st.one_of(st.builds(Text, texts), images)


@st.composite
def conversations(draw: Any) -> tuple[Message, ...]:
    """Turns as a run makes them: calls have their results in the message that follows."""
    messages = [Message("system", (Text(draw(texts)),))] if draw(st.booleans()) else []
    for number in range(draw(st.integers(1, 3))):
        messages.append(Message("user", tuple(draw(st.lists(asked, min_size=1, max_size=3)))))
        parts = draw(st.lists(said, min_size=1, max_size=3))
        made = [
            FunctionCall(draw(names), compact_json(draw(json_texts)), f"toolu_{number}_{place}")
            for place in range(draw(st.integers(0, 2)))
        ]
        messages.append(Message("assistant", (*parts, *made)))
        if made:
            results = [
                FunctionResponse(
                    call.name,
                    {draw(st.sampled_from(["output", "error"])): draw(texts)},
                    call.id,
                    tuple(draw(st.lists(images, max_size=1))),
                )
                for call in made
            ]
            messages.append(Message("tool", tuple(results)))
    return tuple(messages)


@given(conversations())
def test_a_conversation_is_the_same_after_the_wire(messages: tuple[Message, ...]) -> None:
    body = msgspec.json.decode(
        RequestEncoder("claude-opus-5-5", caching=False).body(ModelRequest(messages))
    )
    assert decode_messages(body["messages"], body.get("system")) == messages


@given(conversations())
def test_every_conversation_is_one_that_anthropic_accepts(messages: tuple[Message, ...]) -> None:
    def signed(part: AnyPart) -> AnyPart:
        if not isinstance(part, Thought):
            return part
        return Thought(part.text, extra={"anthropic": {"signature": signature_of(part.text)}})

    sent = [Message(each.role, tuple(map(signed, each.parts))) for each in messages]
    check_messages_request(
        msgspec.json.decode(RequestEncoder("claude-opus-5-5").body(ModelRequest(sent)))
    )
