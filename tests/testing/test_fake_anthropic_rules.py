"""What Anthropic refuses, the fake refuses, in Anthropic's words."""

from typing import Any

import pytest

from windlass.testing.anthropic_rules import AnthropicRules, check_messages_request, signature_of
from windlass.testing.exchange import RequestRefused

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def checked(rules: AnthropicRules = AnthropicRules(), **fields: Any) -> Any:  # noqa: B008
    body = {"model": "m", "max_tokens": 9, "messages": [USER], **fields}
    return check_messages_request(
        {name: value for name, value in body.items() if value is not ...}, rules
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "x"},
        {"system": [text("x", **MARK)]},
        {"messages": [USER, USER, said(text("x"))]},
        {"messages": [USER, said(CALL), user(RESULT, text("And?"))]},
        {"messages": [USER, said(CALL), user(RESULT), USER]},
        {"messages": [USER, {"role": "system", "content": "x"}]},
        {"messages": [USER, said({"type": "redacted_thinking", "data": "x"}, text("x")), USER]},
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"thinking": {"type": "adaptive"}},
        {"thinking": {"type": "adaptive"}, "temperature": 1},
    ],
)
def test_accepted_values(fields: Any) -> None:
    assert checked(**fields)["model"] == "m"


REFUSED: list[tuple[Any, str]] = [
    ({"model": ...}, "model: Field required"),
    ({"max_tokens": ...}, "max_tokens: Field required"),
    ({"max_tokens": 0}, "max_tokens: must be greater"),
    ({"max_tokens": "9"}, "valid integer"),
    ({"max_tokens": 200_000}, r"max_tokens: 200000 > 128000, which is the maximum"),
    ({"messages": []}, "at least one message"),
    ({"messages": ...}, "messages: Field required"),
    ({"messages": [said(text("x"))]}, 'first message must use the "user" role'),
    ({"messages": [{"role": "tool", "content": "x"}]}, "'user' or 'assistant'"),
    ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
    ({"messages": [user(text(" "))]}, "non-whitespace text"),
    ({"messages": [user({"type": "thinking"})]}, "Input tag 'thinking'"),
    ({"messages": [user({"type": "hologram"})]}, "Input tag 'hologram'"),
    ({"messages": [USER, said(CALL)]}, "without `tool_result` blocks immediately after"),
    ({"messages": [USER, said(CALL), USER]}, "without `tool_result` blocks immediately after"),
    ({"messages": [USER, said(CALL), user(text("x"), RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [user(RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [USER, said(CALL), user(RESULT, RESULT)]}, "unexpected `tool_use_id`"),
    ({"messages": [USER, said(CALL, CALL), user(RESULT)]}, "ids must be unique"),
    ({"messages": [USER, said({**CALL, "input": "{}"}), user(RESULT)]}, "valid dictionary"),
    ({"messages": [USER, said({**CALL, "id": "a.b"}), user(RESULT)]}, "should match pattern"),
    ({"messages": [USER, said({"type": "thinking", "thinking": "a"})]}, "Invalid `signature`"),
    (
        {"messages": [USER, said({"type": "thinking", "thinking": "a", "signature": "x"})]},
        "Invalid `signature`",
    ),
    ({"messages": [{"role": "system", "content": "x"}, USER]}, "role 'system' is not supported"),
    ({"messages": [user({"type": "image", "source": {}})]}, "source: Field required"),
    (
        {
            "messages": [
                user({"type": "image", "source": {"type": "base64", "media_type": "", "data": "*"}})
            ]
        },
        "invalid base64",
    ),
    ({"tools": [{"name": "f"}]}, "input_schema: Field required"),
    ({"tools": [{**TOOL, "input_schema": {}}]}, "Input should be 'object'"),
    ({"tools": [{**TOOL, "name": "a b"}]}, "should match pattern"),
    ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
    ({"tool_choice": {"type": "auto"}}, "only be specified while providing tools"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "'g' not found"),
    ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
    (
        {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}},
        "may not be enabled when tool_choice forces",
    ),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.type.adaptive"),
    ({"thinking": {"type": "x"}}, "expected tags"),
    ({"thinking": {"type": "adaptive"}, "temperature": 0}, "only be set to 1"),
    (
        {"system": [text("a", **MARK)] * 2, "messages": [user(*[text("a", **MARK)] * 3)]},
        "maximum of 4 blocks with cache_control may be provided. Found 5",
    ),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_refused_values(fields: Any, message: str) -> None:
    with pytest.raises(RequestRefused, match=message) as raised:
        checked(**fields)
    assert raised.value.status == 400


def test_older_models() -> None:
    old = AnthropicRules(adaptive=False, sampling=False, system_turns=False, max_tokens=8192)
    budget = {"type": "enabled", "budget_tokens": 2048}
    assert checked(old, thinking=budget, max_tokens=4096)
    for fields in (
        {"thinking": {**budget, "budget_tokens": 5}, "max_tokens": 4096},
        {"thinking": budget, "max_tokens": 2048},
        {"thinking": {"type": "adaptive"}},
        {"temperature": 0.5},
        {"messages": [USER, {"role": "system", "content": "x"}]},
        {"max_tokens": 9000},
    ):
        with pytest.raises(RequestRefused):
            checked(old, **fields)


def test_a_signature_belongs_to_its_text() -> None:
    signed = {"type": "thinking", "thinking": "a", "signature": signature_of("a")}
    assert checked(messages=[USER, said(signed, text("x")), USER])
    with pytest.raises(RequestRefused, match="signature"):
        checked(messages=[USER, said({**signed, "thinking": "b"}, text("x")), USER])


def test_a_count_needs_no_limit() -> None:
    assert check_messages_request({"model": "m", "messages": [USER]}, counting=True)


def test_a_body_that_is_no_object() -> None:
    with pytest.raises(RequestRefused, match="not valid JSON"):
        check_messages_request(None)
