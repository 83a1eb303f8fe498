"""Text that is not a call: prose, documentation, examples, code, and undeclared names."""

import pytest
from tests.emulation.parsing import TOOLS, declared, read

from windlass.emulation.parser import FORMATS, render_call
from windlass.emulation.parser.render import TEMPLATES

CALL = render_call("get_weather", {"city": "Paris"})
ONE_LINE = CALL.replace("\n", "")
JSON = '{"name": "get_weather", "arguments": {"city": "Paris"}}'

LOOKALIKES = {
    "code in a line": f"Write `{ONE_LINE}` and it runs.",
    "json in a line": f"The syntax `{JSON}` is what models emit.",
    "a block of code": f"Like this:\n```xml\n{CALL}\n```\nThat is all.",
    "a block in another language": f"```python\nprint('''{JSON}''')\n```",
    "an unclosed block": f"```\nfirst\n{CALL}",
    "a block in tildes": f"~~~\n{CALL}\n~~~",
    "quotation marks": f'He wrote "{ONE_LINE.replace(chr(34), chr(39))}" to me.',
    "a quoted block": f"> {ONE_LINE}",
    "an ellipsis": '<tool_call>{"name": "get_weather", "arguments": {...}}</tool_call>',
    "a marker alone": "Models use <tool_call> and </tool_call> for this.",
    "a value in json": f'{{"example": {JSON}, "note": "nothing runs"}}',
    "a text in json": '{"note": "<function=get_weather><parameter=city>Paris</parameter>"}',
    "a declaration": '{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}',
    "a description": '{"name": "get_weather", "description": "Says the weather"}',
    "data": '[{"city": "Paris"}, {"city": "Rome"}]',
    "a name alone": '{"name": "get_weather"}',
    "mathematics": "a < b and b > c; [1, 2](x); {x | x < 3}",
    "html": "<b>bold</b>, <search> is a tag, <br/> too",
    "a call in prose": "I would write get_weather(city='Paris') here.",
    "a link": "[search](https://example.com) and [ping] too",
    "a list of calls without names": "Such as [get_weather('Paris')] here.",
    "an action without input": "Thought: hm\nAction: search\nThought: no",
    "a request without parameters": "Request function call: search\nand then nothing",
    "a stray end of thoughts": "Some words</think>and more.",
    "thoughts in the middle": "The tag <think> opens thoughts.",
    "space": "  \n\t ",
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_text_that_only_looks_like_a_call_stays_text(name: str) -> None:
    text = LOOKALIKES[name]
    assert read(text) == (text, "", [])
    assert read(iter(text)) == (text, "", [])


@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_an_undeclared_name_is_text_unless_only_a_call_has_such_tokens(format: str) -> None:
    text = render_call("unheard_of", {"x": 1}, format)
    found = read(text)
    if found.calls:
        assert next(head.trust for head in FORMATS[format].heads) == "any"
        assert found.calls == [("unheard_of", found.calls[0][1])]
    else:
        assert found.text == text.strip() or found.text == text


@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_without_any_tools_a_named_format_may_call_every_name(format: str) -> None:
    text = render_call("unheard_of", {"query": "x"}, format)
    assert read(text, None, format).calls == [("unheard_of", {"query": "x"})]


def test_without_any_tools_plain_json_is_text_until_its_format_is_named() -> None:
    assert read(JSON, None) == (JSON, "", [])
    assert read(CALL, None).calls == [("get_weather", {"city": "Paris"})]


def test_text_before_between_and_after_calls_stays() -> None:
    found = read(f"One.\n{CALL}\nTwo. {CALL} Three.\n")
    assert found.text == "One.\n\nTwo.  Three.\n"
    assert len(found.calls) == 2


def test_space_around_a_call_with_nothing_else_is_not_text() -> None:
    assert read(f"\n\n{CALL}\n  {CALL}\n").text == ""


def test_identical_calls_are_two_calls() -> None:
    assert read(CALL * 2).calls == [("get_weather", {"city": "Paris"})] * 2


def test_a_call_after_a_block_of_code_is_a_call() -> None:
    found = read(f"```python\nx = '<tool_call>'\n```\n{CALL}")
    assert found.calls == [("get_weather", {"city": "Paris"})]


def test_a_call_after_an_undeclared_call_is_parsed() -> None:
    found = read(f'<tool_call>{{"name": "zz", "arguments": {{"a": "{{"}}}}</tool_call>{CALL}')
    assert found.calls == [("get_weather", {"city": "Paris"})]


def test_a_marker_inside_the_arguments_of_an_undeclared_call_is_none() -> None:
    inner = ONE_LINE.replace('"', "'")
    text = f'<tool_call>{{"name": "zz", "arguments": {{"a": "{inner}"}}}}</tool_call>'
    assert read(text) == (text, "", [])


def test_markers_inside_arguments_are_arguments() -> None:
    for marker in ("</tool_call>", "<tool_call>", "```", "<think>", "</function>"):
        text = render_call("search", {"query": f"a {marker} b"})
        assert read(iter(text)).calls == [("search", {"query": f"a {marker} b"})]


def test_an_incomplete_marker_at_the_end_is_text() -> None:
    for each in FORMATS.values():
        for entry in (*each.heads, *each.thoughts, *each.noise):
            for first in entry.opening.part.firsts:
                for end in range(1, len(first)):
                    found = read(["Hm. ", first[:end]])
                    assert found.text + found.thoughts == f"Hm. {first[:end]}"
                    assert not found.calls


def test_a_tool_whose_name_is_a_common_tag_needs_its_parameters() -> None:
    tools = [declared("b", text="string")]
    assert read("<b>bold</b>", tools).calls == []
    assert read("<b><i>x</i></b>", tools).calls == []
    assert read("<b><text>x</text></b>", tools).calls == [("b", {"text": "x"})]


def test_many_tools_are_accepted() -> None:
    many = [declared(f"tool_{number}", x="string") for number in range(2_000)]
    text = render_call("tool_1999", {"x": "y"}, "xml-tool-tag")
    assert read(text, [*many, *TOOLS]).calls == [("tool_1999", {"x": "y"})]
