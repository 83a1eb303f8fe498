"""JSON arguments: strict JSON passes, small mistakes are repaired, the rest is an error."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulation.parsing import events_of, read, seen
from tests.support.json_values import any_json

from windlass.emulation.parser import render_call
from windlass.events import ToolCallDelta, ToolCallEnded, ToolCallStarted


def call(arguments: str) -> str:
    return f'<tool_call>{{"name": "search", "arguments": {arguments}}}</tool_call>'


MENDED = {
    '{"query": ["a", "b", ], }': {"query": ["a", "b"]},
    "{'query': 'it\\'s \"so\"'}": {"query": 'it\'s "so"'},
    '{"query": "a\nb\tc"}': {"query": "a\nb\tc"},
    '{"query": True, "b": None, "c": False}': {"query": True, "b": None, "c": False},
    '{query: "a", b_c: 1}': {"query": "a", "b_c": 1},
    '{"query": "a" // why\n, "b": 1 /* so */}': {"query": "a", "b": 1},
    '{"query": "\\d+\\.\\x41"}': {"query": "\\d+\\.A"},
    '{"query": "\\ud83d\\ude00 \\ud800"}': {"query": "😀 �"},
    '"{\\"query\\": \\"a\\"}"': {"query": "a"},
    '""': {},
    "null": {},
    "{ }": {},
}


@pytest.mark.parametrize("written", MENDED)
def test_a_small_mistake_with_a_clear_meaning_is_repaired(written: str) -> None:
    for pieces in ([call(written)], iter(call(written))):
        assert read(pieces).calls == [("search", MENDED[written])]


BROKEN = [
    '{"query": "say "hi" now"}',
    '{"query": 15:30}',
    '{"query": hello}',
    '{"query" "a"}',
    '{"query": "a" "b": 1}',
    '{"query": [1, 2}}',
    '{"query": 007}',
    "[1, 2]",
    '"no object"',
    "invalid",
]


@pytest.mark.parametrize("written", BROKEN)
def test_arguments_with_an_unclear_meaning_are_a_call_with_an_error(written: str) -> None:
    for pieces in ([call(written)], iter(call(written))):
        found = read(pieces)
        assert [name for name, _ in found.calls] == ["search"]
        assert isinstance(found.calls[0][1], str)
        assert found.text == ""


def test_a_broken_call_does_not_hide_the_next_one() -> None:
    for broken in BROKEN:
        found = read(call(broken) + call('{"query": "next"}'))
        assert found.calls[-1] == ("search", {"query": "next"})


CUT = [
    '{"query": ',
    '{"query"',
    '{"query": "a",',
    '{"n": 1',
    "{",
    '{"a": {',
]


@pytest.mark.parametrize("written", CUT)
def test_truncated_arguments_are_never_completed(written: str) -> None:
    found = read(f'<tool_call>{{"name": "search", "arguments": {written}')
    assert all(isinstance(arguments, str) for _, arguments in found.calls)


WHOLE = ['{"query": "a"}', '{"query": "a"', '{"query": {"b": ["c"', '{"query": true']


@pytest.mark.parametrize("written", WHOLE)
def test_brackets_missing_at_the_end_are_added_but_not_to_a_truncated_turn(written: str) -> None:
    text = f'<tool_call>{{"name": "search", "arguments": {written}'
    assert isinstance(read(text).calls[0][1], dict)
    assert isinstance(read(text, truncated=True).calls[0][1], str)
    assert isinstance(read(text + "</tool_call>", truncated=True).calls[0][1], dict)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=8), any_json, max_size=4), st.integers(1, 9))
def test_strict_json_passes_as_it_is_written(arguments: dict[str, object], size: int) -> None:
    for indent in (None, 2):
        written = json.dumps(arguments, indent=indent, ensure_ascii=bool(size % 2))
        text = call(written)
        events = events_of(text[i : i + size] for i in range(0, len(text), size))
        ended = [event for event in events if isinstance(event, ToolCallEnded)]
        assert [event.call.json for event in ended] == [written]
        assert seen(events).calls == [("search", arguments)]


ENVELOPES = [
    '{"name": "search", "arguments": {"query": "x"}}',
    '{"arguments": {"query": "x"}, "name": "search"}',
    '{"id": 7, "type": "function", "function": {"name": "search", "arguments": {"query": "x"}}}',
    '{"function": {"arguments": "{\\"query\\": \\"x\\"}", "name": "search"}, "index": 0}',
    '{"tool_calls": [{"name": "search", "parameters": {"query": "x"}}]}',
    '{"function_call": {"name": "search", "args": {"query": "x"}}}',
    '{"tool_name": "search", "parameters": {"query": "x"}, "tool_call_id": "0"}',
    '{"tool": "search", "tool_input": {"query": "x"}}',
    '{"action": "search", "action_input": "x"}',
    "{'name': 'search', 'arguments': {'query': 'x'}}",
    '[{"name": "search", "arguments": {"query": "x"}}]',
    '{\n  "name" : "search" ,\n  "arguments" : {\n    "query" : "x"\n  }\n}',
]


@pytest.mark.parametrize("written", ENVELOPES)
def test_a_call_is_found_in_every_envelope(written: str) -> None:
    text = f"<tool_call>{written}</tool_call>"
    assert read(text) == ("", "", [("search", {"query": "x"})])
    assert read(iter(text)) == ("", "", [("search", {"query": "x"})])


def test_a_marked_call_needs_no_arguments_key() -> None:
    assert read('<tool_call>{"name": "ping"}</tool_call>').calls == [("ping", {})]


def test_a_call_is_started_before_its_arguments_have_ended() -> None:
    text = render_call("search", {"query": "x" * 100})
    half = events_of([text[:80]], truncated=True)
    assert isinstance(half[0], ToolCallStarted)
    assert isinstance(half[1], ToolCallDelta)
    assert half[1].json.startswith('{"query":"xxx')


def test_arguments_nested_too_deeply_are_a_call_with_an_error() -> None:
    found = read(call('{"a":' * 20_000 + "1" + "}" * 20_000))
    assert isinstance(found.calls[0][1], str)
