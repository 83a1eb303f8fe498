"""Estimates of a prompt's tokens, for models that cannot count."""

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
)
from windlass.wires.tokens import estimated_tokens, text_tokens

ENGLISH = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while. " * 10
CODE = 'def f(a: int) -> dict[str, int]:\n    return {"a": a + 1, "b": [x ** 2 for x in (1, 2)]}\n'
CHINESE = "你好，今天天气怎么样？我想去公园散步。"


def test_texts_of_different_kinds() -> None:
    # o200k, cl100k and Claude's tokenizers: 4 to 5 characters of English are a token.
    assert len(ENGLISH) / 4.5 < text_tokens(ENGLISH) < len(ENGLISH) / 2.8
    assert len(CODE) / 3.5 < text_tokens(CODE) < len(CODE) / 1.8
    assert len(CHINESE) * 0.6 < text_tokens(CHINESE) < len(CHINESE) * 1.6
    assert text_tokens("") == 0
    assert text_tokens("a") == 1
    assert text_tokens("\ud800 lone") > 0


def test_an_estimate_grows_with_everything_that_is_sent() -> None:
    parts = [
        Text("Hello there."),
        Thought("Hm, well."),
        InlineData(b"x" * 50, "image/png"),
        FileData("https://example.com/a.png"),
        InlineData(b"/Type /Page /Type /Pages /Type /Page", "application/pdf"),
        InlineData(b"some words", "text/plain"),
        InlineData(b"x" * 160, "audio/wav"),
        FunctionCall("f", '{"a":1}', "c"),
        FunctionResponse("f", {"output": "x"}, "c", (InlineData(b"x", "image/png"),)),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "x" * 40}),
    ]
    counts = [
        estimated_tokens([Message("user", tuple(parts[:count]))]) for count in range(len(parts) + 1)
    ]
    assert counts == sorted(set(counts))
    assert counts[5] - counts[4] == 4000  # two pages


def test_tools_count() -> None:
    tool = FunctionDeclaration("f", "Does something useful.", {"type": "object", "properties": {}})
    hello = [Message.user("Hi")]
    assert estimated_tokens(hello, [tool]) > estimated_tokens(hello) + 300
