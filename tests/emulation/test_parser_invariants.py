"""Rules for every format: any split gives the same result, and no text is lost."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.thoroughness import examples

from windlass import ConfigError
from windlass.emulation.parse import Parsed, parse
from windlass.emulation.parser import FORMATS, Parser, render_calls
from windlass.emulation.parser.render import TEMPLATES
from windlass.events import TextDelta, ToolCallDelta, ToolCallEnded, ToolCallStarted

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "options": {"type": "object"},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "list_files", "parameters": {"type": "object"}}},
]
words = st.text("abc xyzäß\"'\\{}[]:,", min_size=1, max_size=12).map(str.strip).filter(bool)
arguments = st.fixed_dictionaries(
    {"city": words},
    optional={
        "days": st.integers(-5, 99),
        "tags": st.lists(st.sampled_from(["a", "b c"]), max_size=3),
        "options": st.dictionaries(st.sampled_from(["k", "m"]), st.booleans(), max_size=2),
    },
)
called = st.lists(
    st.tuples(st.just("get_weather"), arguments) | st.just(("list_files", {})),
    min_size=1,
    max_size=3,
)


def shown(parsed: Parsed) -> Any:
    return parsed.content, parsed.thoughts, [(c.name, c.arguments, c.json) for c in parsed.calls]


def pieces(text: str, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    while text:
        size = chance.randint(1, 9)
        yield text[:size]
        text = text[size:]


@pytest.mark.sweep
@pytest.mark.parametrize("format", sorted(FORMATS))
@settings(max_examples=examples(8), deadline=None)
@given(calls=called, seed=st.integers(0, 99), prose=st.sampled_from(["", "Let me see. ", "Hm:\n"]))
def test_any_split_of_a_text_gives_the_same_result(
    format: str, calls: list[Any], seed: int, prose: str
) -> None:
    known = format in TEMPLATES
    text = prose + render_calls(calls, format if known else "hermes-json")
    for named in (format, "auto") if known else (format,):
        whole = shown(parse(text, TOOLS, named))
        assert shown(parse(list(text), TOOLS, named)) == whole
        assert shown(parse(pieces(text, seed), TOOLS, named)) == whole


@pytest.mark.parametrize("format", ["windlass", "hermes-json", "kimi-k2", "deepseek-v3", "mistral"])
@settings(max_examples=15, deadline=None)
@given(calls=called)
def test_text_and_calls_together_lose_nothing(format: str, calls: list[Any]) -> None:
    parsed = parse("Before. " + render_calls(calls, format), TOOLS, format)
    assert parsed.content.strip() == "Before."
    assert [(c.name, c.arguments) for c in parsed.calls] == calls


@settings(max_examples=examples(30), deadline=None)
@given(text=st.text("<>{}[]|\"'`\n toolcalnmeaguis:_=/", max_size=120))
def test_any_text_at_all_is_read_without_an_error_and_in_any_split(text: str) -> None:
    whole = shown(parse(text, TOOLS))
    assert shown(parse(list(text), TOOLS)) == whole


@settings(max_examples=examples(25), deadline=None)
@given(calls=called, seed=st.integers(0, 99))
def test_a_stream_names_each_call_once_and_its_pieces_are_its_arguments(
    calls: list[Any], seed: int
) -> None:
    parser = Parser(None)
    text = render_calls(calls, "windlass")
    events = [event for piece in pieces(text, seed) for event in parser.feed(piece)]
    events += parser.finish()
    started = [e for e in events if isinstance(e, ToolCallStarted)]
    ended = [e for e in events if isinstance(e, ToolCallEnded)]
    assert [e.index for e in started] == [e.index for e in ended] == list(range(len(calls)))
    for end in ended:
        streamed = [e.json for e in events if isinstance(e, ToolCallDelta) and e.index == end.index]
        assert "".join(streamed) == end.call.json


@pytest.mark.parametrize("text", ["Hello <tool_", "a < b", "```python\nprint('<tool_call>')\n```"])
def test_text_that_only_begins_like_a_call_is_complete(text: str) -> None:
    parsed = parse(list(text), TOOLS)
    assert (parsed.content, parsed.calls) == (text, ())


def test_plain_text_passes_immediately() -> None:
    parser = Parser(None)
    assert parser.feed("Hello ") == [TextDelta("Hello ")]
    assert parser.feed("world") == [TextDelta("world")]


def test_calls_inside_thoughts_are_not_calls() -> None:
    call = render_calls([("list_files", {})], "windlass")
    parsed = parse(f"<think>I could {call}</think>Done.", TOOLS)
    assert (parsed.content, parsed.calls) == ("Done.", ())
    assert "list_files" in parsed.thoughts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"city": "Paris",}', {"city": "Paris"}),
        ("{'city': 'Paris'}", {"city": "Paris"}),
        ('{"city": "a\nb"}', {"city": "a\nb"}),
    ],
)
def test_json_is_repaired_if_its_meaning_is_clear(written: str, read: Any) -> None:
    text = f'<tool_call>{{"name": "get_weather", "arguments": {written}}}</tool_call>'
    assert [c.arguments for c in parse(text, TOOLS).calls] == [read]


def test_a_cut_string_is_never_completed() -> None:
    cut = '<tool_call>{"name": "get_weather", "arguments": {"city": "rm -rf /tm'
    assert all(call.error for call in parse(cut, TOOLS).calls)


def test_a_turn_truncated_by_the_output_limit_has_no_runnable_call() -> None:
    parser = Parser(None)
    parser.feed('<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}')
    ended = [e for e in parser.finish(truncated=True) if isinstance(e, ToolCallEnded)]
    assert all(e.call.error for e in ended)


def test_an_undeclared_name_is_text() -> None:
    text = '{"name": "unknown_thing", "arguments": {}}'
    parsed = parse(text, TOOLS)
    assert (parsed.content, parsed.calls) == (text, ())


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="klingon"):
        parse("x", TOOLS, "klingon")


@pytest.mark.sweep
@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_a_text_may_end_anywhere(format: str) -> None:
    """Also in the middle of a marker: nothing breaks, and no cut string becomes an argument."""
    text = "Hm. " + render_calls([("get_weather", {"city": "Paris", "days": 3})], format)
    for end in range(0, len(text), 2):
        parsed = parse(text[:end], TOOLS, format)
        assert shown(parse(pieces(text[:end], end), TOOLS, format)) == shown(parsed)
        whole = [c.arguments for c in parsed.calls if isinstance(c.arguments, dict)]
        assert all(arguments.get("city", "Paris") == "Paris" for arguments in whole)


HOSTILE = {
    "openings": "<tool_call>" * 20_000,
    "braces": '<tool_call>{"name": "list_files", "arguments": ' + '{"a":' * 100_000,
    "brackets": "[" * 100_000,
    "quotes": '<tool_call>{"name": "list_files", "arguments": {"a": "' + '\\"' * 100_000,
    "fences": "```json\n" * 20_000,
    "thoughts": "<think>" * 20_000,
    "names": "<function=" * 20_000,
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_parsed_to_its_end(name: str) -> None:
    text = HOSTILE[name]
    parsed = parse((text[i : i + 1_000] for i in range(0, len(text), 1_000)), TOOLS)
    assert all(call.error for call in parsed.calls if call.arguments != {})


def test_a_long_argument_costs_in_proportion_to_its_length() -> None:
    """Counts steps of the interpreter, because times vary."""
    assert _steps(8_000) < 6 * _steps(2_000)


def _steps(size: int) -> int:
    import sys

    body = json.dumps({"city": "line of text\n" * (size // 13)})
    text = f'<tool_call>{{"name": "get_weather", "arguments": {body}}}</tool_call>'
    count = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse([text[i : i + 8] for i in range(0, len(text), 8)], TOOLS)
    finally:
        sys.settrace(before)
    return count
