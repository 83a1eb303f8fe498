# ruff: noqa: E501 - a call is easier to read in one line
"""Values between tags stay unchanged, also if they look like the tags around them."""

from typing import Any

import pytest
from tests.emulation.parsing import declared, read

from windlass.emulation.parser import Parser, render_call
from windlass.emulation.parser.render import TEMPLATES
from windlass.events import TextDelta, ToolCallEnded

WRITE = declared("write_file", path="string", content="string", mode="integer")
TAGGED = [name for name, written in TEMPLATES.items() if written.parameter]
TEXTS = [
    # Closing tags in the middle of a text.
    "Close it with </parameter> and go on.",
    "Close it with </arg_value> and go on.",
    "Close it with </content> and go on.",
    "It ends with </function> or </invoke> or </tool_call> or so.",
    "\uff5cDSML\uff5c: </\uff5cDSML\uff5cparameter> is the tag.",
    "a </parameter>\n</parameter> b",
    # Opening tags.
    "Write <function=foo> to call foo.",
    "Write <parameter=x> and then <parameter=y>.",
    "Write <invoke name='foo'> or <arg_key>k</arg_key> there.",
    "nested-looking <content> body",
    # Whole values and calls, as code.
    "<parameter=x>1</parameter>",
    "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>",
    "<content>x</content>\n<content>y</content>",
    "def f():\n    return '''\n<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n'''",
    '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\nEnd',
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\nEnd",
    # Space.
    "trailing\n",
    "trailing\n\n\n",
    "\n\nleading",
    "\n",
    "  indented\n\ttabs \n  ",
    "a\r\nb",
    "",
    # What XML would escape.
    "if a < b && c > d: print('&lt;&amp;&#65;')",
    "x &unknown; &#xD800; & y",
]


@pytest.mark.sweep
@pytest.mark.parametrize("format", TAGGED)
@pytest.mark.parametrize("text", TEXTS)
def test_any_text_between_tags_is_returned_unchanged(format: str, text: str) -> None:
    arguments = {"path": "a.md", "content": text, "mode": 7}
    for given in (arguments, {"content": text, "path": "a.md"}, {"content": text}):
        written = f"Now.\n{render_call('write_file', given, format)}\nDone."
        for named in (format, "auto"):
            for pieces in ([written], iter(written)):
                found = read(pieces, [WRITE], named)
                assert found.calls == [("write_file", given)]
                assert found.text.split() == ["Now.", "Done."]


XML: list[tuple[str, str]] = [
    ("<![CDATA[a < b && c]]>", "a < b && c"),
    ("\n<![CDATA[\n</content></write_file>\n]]>\n", "\n</content></write_file>\n"),
    ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
    ("x <![CDATA[&lt;]]> &lt;", "x &lt; <"),
    ("<![CDATA[]]>", ""),
    ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
    ("&quot;&apos;&#10;&#65;&#x41;&#X1f600;", "\"'\nAA😀"),
    ("&amp;lt; &nbsp; &#0; &#xD800; &#1114112; &", "&lt; &nbsp; &#0; &#xD800; &#1114112; &"),
    ("\n two \n\n", "\n two \n\n"),
    ("say </content> twice", "say </content> twice"),
    ("<content>x</content>", "<content>x</content>"),
    ("<b>bold</b>", "<b>bold</b>"),
    ("<write_file>\n<path>x</path>\n</write_file>", "<write_file>\n<path>x</path>\n</write_file>"),
]


@pytest.mark.parametrize(("written", "value"), XML)
def test_a_tag_for_each_tool_is_xml(written: str, value: str) -> None:
    text = f"<write_file>\n<path>p</path>\n<content>{written}</content>\n</write_file>"
    for pieces in ([text], iter(text)):
        assert read(pieces, [WRITE]).calls == [("write_file", {"path": "p", "content": value})]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # XML's sections, but not its references: values are written as they are.
        ('<invoke name="write_file"><parameter name="content"><![CDATA[</parameter></invoke>&lt;]]></parameter></invoke>', "</parameter></invoke>&lt;"),
        ('<invoke name="write_file"><parameter name="content">a &lt; b</parameter></invoke>', "a &lt; b"),
        ('<function name="write_file"><param name="content"><![CDATA[</param>]]></param></function>', "</param>"),
        # Tags that only look like XML.
        ("<tool_call><function=write_file><parameter=content>\n<![CDATA[x]]>\n</parameter></function></tool_call>", "<![CDATA[x]]>"),
        ("<tool_call>write_file\n<arg_key>content</arg_key>\n<arg_value>&lt;</arg_value></tool_call>", "&lt;"),
        # One newline at either side is layout, whatever the line ends with.
        ("<function=write_file><parameter=content>\r\na\r\n\r\n</parameter></function>", "a\r\n"),
        ("<function=write_file><parameter=content>\n\n\n</parameter></function>", "\n"),
    ],
)  # fmt: skip
def test_each_format_decodes_its_own_escapes(text: str, value: str) -> None:
    for pieces in ([text], iter(text)):
        assert read(pieces, [WRITE]).calls == [("write_file", {"content": value})]


MISSING: list[tuple[str, Any]] = [
    ("<tool_call><function=write_file><parameter=path>a<parameter=content>b</parameter></function></tool_call>", {"path": "a", "content": "b"}),
    ("<tool_call><function=write_file><parameter=path>a</function></tool_call>", {"path": "a"}),
    ("<tool_call><function=write_file><parameter=path>a</parameter></tool_call>", {"path": "a"}),
    ("<tool_call><function=write_file><parameter=path>a</parameter>", {"path": "a"}),
    ("<function=write_file><parameter=path>a</parameter><parameter=size>1</parameter></function>", {"path": "a", "size": "1"}),
    ("<function=write_file><parameter=mode>1</parameter> or so <parameter=path>a</parameter></function>", {"mode": 1, "path": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "arguments"), MISSING)
def test_a_missing_tag_is_added_if_its_place_is_clear(text: str, arguments: Any) -> None:
    for pieces in ([text], iter(text)):
        assert read(pieces, [WRITE]).calls == [("write_file", arguments)]


@pytest.mark.parametrize(
    "text",
    [
        "<function=write_file><parameter=path>a",
        "<function=write_file><parameter=path>a</function> and more",
        "<write_file><path>a</write_file>",
        "<write_file><path>a</path><content><![CDATA[b</content></write_file>",
        '<invoke name="write_file"><parameter name="path">a</invoke> more',
    ],
)
def test_a_value_without_an_end_is_an_error(text: str) -> None:
    for pieces in ([text], iter(text)):
        assert [type(each) for _, each in read(pieces, [WRITE]).calls] == [str]


LOOKALIKES = [
    # Openings inside the value decide that the first end is not its own.
    "Open <parameter=x>1</parameter></function> and go on.",
    "Open <parameter=x>1</parameter>\n</function>\n</tool_call>\nand go on.",
    "<parameter=a>1</parameter><parameter=b>2</parameter></function></tool_call> and so on",
    "<parameter=content>\nx\n</parameter>\n</function>\nEnd",
    # The end of a call without the end of a value.
    "It ends with </function></tool_call> as always.",
    "Before </function>\n<function=f> there is an end.",
    # A parameter of the tool, in the middle of a line.
    "Give the <parameter=path> too.",
    "Give <parameter=path>p</parameter> too.",
]
IN_BLOCKS = (
    "<tool_call>\n<function=write_file>\n<parameter=content>\n{}\n</parameter>\n</function>\n</tool_call>",
    "<function=write_file>\n<parameter=content>\n{}\n</parameter>\n</function>\nDone.",
    "<tool_call><function=write_file><parameter=content>\n{}\n</parameter></function></tool_call><tool_call><function=ping></function></tool_call>",
)


@pytest.mark.parametrize("value", LOOKALIKES)
@pytest.mark.parametrize("around", IN_BLOCKS)
def test_a_value_may_contain_the_end_of_a_call(value: str, around: str) -> None:
    text = around.format(value)
    for pieces in ([text], iter(text), (text[at : at + 7] for at in range(0, len(text), 7))):
        calls = read(pieces, [WRITE, declared("ping")]).calls
        assert calls[0] == ("write_file", {"content": value})


DOUBTFUL = [
    # The call may end in two places.
    "<function=write_file><parameter=content>x</parameter></function> y</parameter></function>",
    "<tool_call><function=write_file><parameter=content>\nx\n</parameter>\n</function>\n</tool_call>\ny\n</parameter>\n</function>\n</tool_call>",
    "<function=write_file><parameter=content>x</parameter><function=f> y</parameter></function>",
    '<invoke name="write_file"><parameter name="content">x</parameter></invoke> y</parameter></invoke>',
    "<tool_call>write_file<arg_key>content</arg_key><arg_value>x</arg_value></tool_call> y</arg_value></tool_call>",
    # A key that a closing tag seems to be missing before, and a closing tag too many.
    "<function=write_file><parameter=content>\n<parameter=path>\np\n</parameter>\n</parameter>\n</function>",
    "<function=write_file><parameter=content>a<parameter=path>p</parameter> b</parameter></function>",
    "<function=write_file><parameter=content>a<parameter=mode>1</parameter> b</parameter></function>",
    # A parameter that is given twice.
    "<function=write_file><parameter=content>a</parameter><parameter=content>b</parameter></function>",
]  # fmt: skip


@pytest.mark.parametrize("text", DOUBTFUL)
def test_a_value_that_may_end_in_two_places_is_an_error(text: str) -> None:
    for pieces in ([text], iter(text), (text[at : at + 7] for at in range(0, len(text), 7))):
        assert [type(each) for _, each in read(pieces, [WRITE]).calls] == [str]


def test_text_after_a_call_is_held_back_only_for_a_while() -> None:
    parser = Parser([WRITE])
    call = "<function=write_file><parameter=content>x</parameter></function>\n"
    events = parser.feed(call + "a " * 3_000)
    assert any(isinstance(event, ToolCallEnded) for event in events)
    assert any(isinstance(event, TextDelta) for event in events)


def test_a_call_without_its_end_stops_before_the_next() -> None:
    one = "<tool_call>write_file<arg_key>path</arg_key><arg_value>{}</arg_value>"
    text = one.format("a") + one.format("b") + "</tool_call>"
    wanted = [("write_file", {"path": "a"}), ("write_file", {"path": "b"})]
    for pieces in ([text], iter(text)):
        assert read(pieces, [WRITE]).calls == wanted


def test_a_list_whose_last_item_is_closed_twice_is_read() -> None:
    tools = [declared("f", tags={"type": "array", "items": {"type": "string"}}, x="string")]
    text = "<f><tags>a</tags><tags>b</tags></tags><x>y</x></f>"
    assert read(text, tools).calls == [("f", {"x": "y", "tags": ["a", "b"]})]


def test_a_text_may_end_in_the_tag_after_a_value() -> None:
    text = "<tool_call>write_file<arg_key>path</arg_key><arg_value>a</arg_value></tool_"
    for pieces in ([text], iter(text)):
        assert read(pieces, [WRITE]).calls == [("write_file", {"path": "a"})]


def test_the_input_of_a_langchain_call_keeps_its_space() -> None:
    tools = [declared("run", code="string")]
    text = "<tool>run</tool><tool_input>  a\n\n</tool_input>"
    assert read(text, tools).calls == [("run", {"code": "  a\n\n"})]
