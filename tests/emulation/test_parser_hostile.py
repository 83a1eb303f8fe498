"""Hostile text: work in proportion to its length, memory within bounds, and never an exception."""

import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulation.parsing import TOOLS, read, seen
from tests.support.thoroughness import examples

from windlass.emulation.parser import FORMATS, Parser
from windlass.emulation.parser.source import MAX_CALL_CHARS

OPENING = '<tool_call>{"name": "search", "arguments": '
FLOODS = {
    "openings": "<tool_call>",
    "tags": "<",
    "braces": "{",
    "brackets": "[",
    "names": '{"name": ',
    "function tags": "<function=search>",
    "actions": "Action: search\n",
    "fences": "```json\n{",
    "quotes": '"',
    "backticks": "`",
    "newlines": "\n",
    "thoughts": "<think>",
    "calls in thoughts": "<think><tool_call>{",
    "nested arguments": OPENING + '{"a":',
    "unbalanced quotes": OPENING + '{"a": "x" "',
    "arguments first": '<tool_call>{"arguments": {"a": "',
    "undeclared": '<tool_call>{"name": "zz", "arguments": {"a": "',
    "parameters": "<tool_call><function=search><parameter=query>",
    "pairs": "<tool_call>search<arg_key>query</arg_key>",
    "tool tags": "<search><query>",
    "python": "[search(query=",
    "python lists": "[search(query=[1, [",
    "python strings": "[search(query='a' \"",
    "python that is broken": "[search(query=x, y('",
    "closing tags": "<function=search><parameter=query></parameter> b <",
    "tags in tags": "<search><query></query> <search> ",
    "sections": "<search><query><![CDATA[ ]] ",
    "yaml": "<search>\nquery: >\n  a: [",
    "quotation marks": "' \u201c \" <search>",
    "comments": "<!-- <tool_call>{ ",
    "tables": "| [ping() |\n",
    "gemma": '<|tool_call>call:search{query:<|"|>',
    "escapes": OPENING + '{"a": "\\',
}


def chunks(text: str, size: int) -> Iterator[str]:
    return (text[place : place + size] for place in range(0, len(text), size))


def steps(text: str, size: int) -> int:
    """Counts the lines that the interpreter runs: unlike time, the same on every machine."""
    count = 0

    def trace(*_: object) -> object:
        nonlocal count
        count += 1
        return trace

    read(chunks(text, size))  # what is compiled once does not count
    parser = Parser(TOOLS)
    before = sys.gettrace()
    sys.settrace(trace)  # pyright: ignore[reportArgumentType]
    try:
        for piece in chunks(text, size):
            parser.feed(piece)
        parser.finish()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.measures
@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("size", [7, 100_000])
def test_the_work_grows_with_the_text_and_not_with_its_square(name: str, size: int) -> None:
    flood = FLOODS[name]
    short, long = flood * (500 // len(flood)), flood * (2_000 // len(flood))
    assert steps(long, size) < 6 * steps(short, size)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_markers_parses_the_same_in_pieces_and_calls_nothing(name: str) -> None:
    text = FLOODS[name] * (10_000 // len(FLOODS[name]))
    whole = read(text)
    assert read(chunks(text, 64)) == whole
    assert all(isinstance(arguments, str) or arguments == {} for _, arguments in whole.calls)


@pytest.mark.parametrize("name", ["thoughts", "undeclared"])
def test_text_that_was_passed_on_uses_no_memory(name: str) -> None:
    parser, text = Parser(TOOLS), FLOODS[name] * (100_000 // len(FLOODS[name]))
    parser.feed(FLOODS[name])
    tracemalloc.start()
    try:
        for piece in chunks(text, 64):
            parser.feed(piece)
        assert tracemalloc.get_traced_memory()[0] < len(text) // 2
    finally:
        tracemalloc.stop()


def test_a_call_longer_than_the_limit_is_one_that_cannot_run() -> None:
    parser = Parser(TOOLS)
    events = parser.feed(OPENING + '{"query": "')
    for _ in range(10):
        events += parser.feed("x" * (MAX_CALL_CHARS // 8))
    events += [*parser.feed('"}}</tool_call>After.'), *parser.finish()]
    found = seen(events)
    assert found.text == "After."
    assert [type(arguments) for _, arguments in found.calls] == [str]
    assert len(found.calls[0][1]) == MAX_CALL_CHARS


FIRSTS = {
    first
    for each in FORMATS.values()
    for entry in (*each.heads, *each.thoughts, *each.noise)
    for first in entry.opening.part.firsts
}
FRAGMENTS = [
    *sorted(FIRSTS),
    *("search", "query", '"name"', '"arguments"', ":", "{", "}", "[", "]", "(", ")", "=", '"', "'"),
    *("\\", "\n", " ", "`", ",", ";", "</tool_call>", "</think>", "</function>", "</parameter>"),
    *("<parameter=query>", "</invoke>", "<arg_key>", "</arg_value>", "<query>", "</search>"),
    *(
        '<|"|>',
        "Action Input:",
        "\ud800",
        "😀",
        "\0",
        "true",
        "-1",
        "//",
        "/*",
        "...",
        "&lt;",
        "> ",
    ),
]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join), st.booleans())
def test_random_markers_parse_the_same_whole_and_by_character(text: str, truncated: bool) -> None:
    assert read(text, truncated=truncated) == read(iter(text), truncated=truncated)


@settings(max_examples=examples(20), deadline=None)
@given(st.text(max_size=60))
def test_text_without_markers_passes_unchanged(text: str) -> None:
    plain = text.translate(str.maketrans("", "", "<[{`"))
    assert read(plain) == (plain, "", [])
