"""An example of every format, parsed with and without the format's name."""

import re
from typing import Any

import pytest
from tests.emulation.parsing import TOOLS, declared, events_of, read, seen

from windlass.emulation.parser import DEFAULT_FORMAT, FORMATS, render_call, render_calls
from windlass.emulation.parser.pattern import MORE
from windlass.emulation.parser.render import TEMPLATES
from windlass.errors import ConfigError
from windlass.events import ToolCallStarted

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": 'São "Paulo"\nä\\ö {[<>]}', "days": -3}),
    ("ping", {}),
    ("search", {"query": "it's 5 o'clock, somewhere"}),
]
PARIS = [("get_weather", {"city": "Paris"})]
BOTH = [*PARIS, ("ping", {})]
OTHER_TEXTS: dict[str, list[tuple[str, list[tuple[str, Any]]]]] = {
    "qwen3-coder-xml": [
        ("<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>", PARIS),
        ("<tool_call>\n<function=get_weather\n<parameter=city>Paris</parameter></function>", PARIS),
        ("<tool_call><function=ping></function></tool_call>", [("ping", {})]),
        ("<tool_call><function=get_weather><parameter=city>Paris</function></tool_call>", PARIS),
    ],
    "k-exaone": [("<tool_call><function=ping>\n</function></tool_call>", [("ping", {})])],
    "glm45": [
        ("<tool_call>ping</tool_call>", [("ping", {})]),
        ("<tool_call>get_weather<arg_key>city</arg_key>\nParis</arg_value></tool_call>", PARIS),
        ("<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n", PARIS),
    ],
    "hunyuan-v3": [
        (
            (
                "<tool_calls><tool_call>get_weather<tool_sep><arg_key>city</arg_key>"
                "<arg_value>Paris</arg_value></tool_call><tool_call>ping<tool_sep></tool_call></tool_calls>"
            ),
            BOTH,
        )
    ],
    "laguna": [('<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>', [("ping", {})])],
    "deepseek-dsml": [
        ('<｜DSML｜tool_calls><｜DSML｜invoke name="ping"/></｜DSML｜tool_calls>', [("ping", {})])
    ],
    "deepseek-v3": [
        (
            (
                "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>get_weather\n"
                '```json\n{"city": "Paris"}\n```'
            ),
            PARIS,
        )
    ],
    "kimi-k2": [
        (
            (
                '<|tool_call_begin|>get_weather:0 <|tool_call_argument_begin|>{"city": "Paris"}'
                "<|tool_call_end|>"
            ),
            PARIS,
        )
    ],
    "kimi-k3": [
        (
            (
                '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
                '<|open|>argument key="city" type="string"<|sep|>Paris'
                "<|close|>argument<|sep|><|close|>call<|sep|>"
                '<|open|>call tool="ping" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
            ),
            BOTH,
        )
    ],
    "harmony": [
        (
            (
                "<|channel|>analysis<|message|>Hm.<|end|>"
                "<|start|>assistant to=functions.get_weather"
                '<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>'
            ),
            PARIS,
        ),
        ('<|channel|>commentary to=functions.get_weather<|message|>{"city": "Paris"}', PARIS),
    ],
    "gemma4": [("<|tool_call>call:get_weather{city:'Paris'}<tool_call|>", PARIS)],
    "functiongemma": [("<start_function_call>call:ping{}<end_function_call>", [("ping", {})])],
    "minimax-m3": [
        (
            (
                ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">'
                "]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"
            ),
            PARIS,
        )
    ],
    "minicpm5": [
        ('<function name="get_weather"><param name="city">Paris</param></function>', PARIS)
    ],
    "step3": [
        (
            (
                "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
                '<steptml:invoke name="get_weather"><steptml:parameter name="city">Paris'
                "</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>"
            ),
            PARIS,
        )
    ],
    "muse-glimmer": [
        (
            (
                " to=get_weather<|message|><atem:function_calls>\n"
                '<atem:invoke name="get_weather">\n'
                '<atem:parameter name="city">Paris</atem:parameter>\n</atem:invoke>\n'
                "</atem:function_calls><|eot|>"
            ),
            PARIS,
        )
    ],
    "dots": [
        ('<dots_function_call><invoke name="ping"></invoke></dots_function_call>', [("ping", {})])
    ],
    "apertus": [
        ('<|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"ping": {}}]<|tools_suffix|>', BOTH)
    ],
    "gigachat3": [
        ('<|function_call|>{"name": "ping", "arguments": {}}', [("ping", {})]),
        ('<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "ping"}', [("ping", {})]),
    ],
    "inkling": [
        (
            '<|message_model|>ping<|content_invoke_tool_json|>{"name":"ping","args":{}}<|end_message|>',
            [("ping", {})],
        )
    ],
    "longcat": [('<longcat_tool_call>{"name": "ping"}</longcat_tool_call>', [("ping", {})])],
    "apriel": [('<tool_calls>[{"name": "ping", "arguments": {}}]</tool_calls>', [("ping", {})])],
    "ernie45": [('<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>', [("ping", {})])],
    "yaml-xml": [
        ("<get_weather>\ncity: Paris\n</get_weather>", PARIS),
        ("<search>\nquery: |\n  one\n  two\n</search>", [("search", {"query": "one\ntwo\n"})]),
        (
            "<search>\nquery: 'it''s'\n</search><ping/>",
            [("search", {"query": "it's"}), ("ping", {})],
        ),
    ],
    "xml-tool-tag": [
        ("<ping   />", [("ping", {})]),
        ("<ping></ping>", [("ping", {})]),
        (
            "<get_weather><city>a &lt; b</ city></get_weather >",
            [("get_weather", {"city": "a < b"})],
        ),
        ('<get_weather>{"city": "Paris"}</get_weather>', PARIS),
    ],
    "react": [
        ("**Action:** get_weather\n**Action Input:** {'city': 'Paris'}", PARIS),
        ('Thought: hm\nAction: search\nAction Input: "x y"', [("search", {"query": "x y"})]),
        ("Action: search\nAction Input: a\nb\nObservation: c", [("search", {"query": "a\nb"})]),
        (
            'Action: search\nAction Input:\n```json\n{"query": "x"}\n```',
            [("search", {"query": "x"})],
        ),
    ],
    "mistral": [
        ('[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]ping{}', BOTH),
        ('[TOOL_CALLS]get_weather[CALL_ID]a1[ARGS]{"city": "Paris"}', PARIS),
    ],
    "llama3-json": [
        (
            (
                '{"name": "get_weather", "parameters": {"city": "Paris"}}; '
                '{"name": "ping", "parameters": {}}'
            ),
            BOTH,
        ),
        ('<|python_tag|>get_weather.call(city="Paris")', PARIS),
    ],
    "pythonic": [
        ("[get_weather(city='Paris'), ping()]", BOTH),
        ('[search(query="""a "b"\nc""")]', [("search", {"query": 'a "b"\nc'})]),
    ],
    "lfm2": [
        ('<|tool_call_start|>[{"name": "ping", "arguments": {}}]<|tool_call_end|>', [("ping", {})])
    ],
    "tool_code": [('```tool_code\nprint(default_api.get_weather(city="Paris"))\n```', PARIS)],
    "json-fence": [
        ('```\n[{"name": "ping", "arguments": {}}]\n```', [("ping", {})]),
        (
            '```json\n{"name": "ping", "arguments": {}}\n\n{"name": "ping", "arguments": {}}\n```',
            [("ping", {}), ("ping", {})],
        ),
    ],
    "request-function-call": [
        ("Request function call: ping\nParameters:\n```json\n{}\n```", [("ping", {})]),
        ("call:default_api:get_weather{city:<ctrl46>Paris<ctrl46>}", PARIS),
    ],
    "granite": [('<tool_call>[{"arguments": {}, "name": "ping"}]', [("ping", {})])],
    "langchain-xml": [
        ("<tool>search</tool>\n<tool_input>cats and dogs", [("search", {"query": "cats and dogs"})])
    ],
}
EXAMPLES = [(name, text, calls) for name, given in OTHER_TEXTS.items() for text, calls in given]


def test_every_format_is_shown() -> None:
    assert set(FORMATS) - set(TEMPLATES) - set(OTHER_TEXTS) == {"none"}
    assert DEFAULT_FORMAT in TEMPLATES


@pytest.mark.parametrize("format", sorted(TEMPLATES))
@pytest.mark.parametrize("named", [False, True])
def test_a_call_rendered_in_a_format_is_parsed_in_that_format(format: str, named: bool) -> None:
    text = f"Before.\n{render_calls(CALLS, format)}\nAfter."
    for pieces in ([text], iter(text)):
        found = read(pieces, format=format if named else "auto")
        assert found.calls == CALLS
        assert found.text.split() == ["Before.", "After."]


@pytest.mark.parametrize(("format", "text", "calls"), EXAMPLES)
def test_an_example_is_read_whole_and_by_the_character(
    format: str, text: str, calls: list[Any]
) -> None:
    for named in (format, "auto"):
        for pieces in ([text], iter(text), (text[:9], text[9:])):
            found = read(pieces, format=named)
            assert found.calls == calls
            assert found.text.split("\n")[-1] in ("", "Observation: c")


@pytest.mark.parametrize(("format", "text", "calls"), EXAMPLES)
def test_an_example_may_end_anywhere_and_calls_nothing_else_if_truncated(
    format: str, text: str, calls: list[Any]
) -> None:
    for end in range(5, len(text), 11):
        cut, truncated = text[:end], bool(end % 2)
        whole = read(cut, truncated=truncated)
        assert read(iter(cut), truncated=truncated) == whole
        if truncated:
            assert all(call in calls for call in whole.calls if isinstance(call[1], dict))


@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_a_truncated_call_never_runs(format: str) -> None:
    text = render_call("get_weather", {"city": "Paris", "days": 12}, format)
    complete = read(text, truncated=True).calls
    for end in range(len(text)):
        for _, arguments in read(text[:end], truncated=True).calls:
            # Closed but for the section around it: nothing of the call itself is missing.
            assert isinstance(arguments, str) or complete == [("get_weather", arguments)]


@pytest.mark.sweep
@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_marker_is_held_back_from_its_first_letter(format: str) -> None:
    for head in FORMATS[format].heads:
        for text in (
            *(text for _, text, _ in EXAMPLES),
            *(render_calls(CALLS, f) for f in TEMPLATES),
        ):
            for place in [match.start() for match in re.finditer(r"[^\w\s]|\b", text)]:
                found = head.opening.at(text, place, ended=True)
                if found is None or found is MORE:
                    continue
                for end in range(place + 1, found.end()):
                    assert head.opening.at(text[:end], place, ended=False) is MORE


@pytest.mark.parametrize("text", ['print(text="a")', 'print(print(text="a"))', "print(ping())"])
def test_print_is_around_a_call_or_is_the_call_itself(text: str) -> None:
    tools = [*TOOLS, declared("print", text="string")]
    called = ("ping", {}) if "ping" in text else ("print", {"text": "a"})
    code = f"```tool_code\nping()\n{text}\n```"
    for pieces in ([code], iter(code)):
        assert read(pieces, tools).calls == [("ping", {}), called]


def test_calls_have_their_own_ids() -> None:
    started = [e for e in events_of([render_calls(CALLS)]) if isinstance(e, ToolCallStarted)]
    assert len({event.id for event in started}) == len(CALLS)
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", event.id) for event in started)


def test_another_named_format_finds_no_call() -> None:
    text = render_call("ping", {}, "harmony")
    assert read(text, format="windlass") == (text, "", [])
    assert read(render_call("ping", {}), format="none").calls == []


def test_formats_that_do_not_exist_are_named_in_the_refusal() -> None:
    with pytest.raises(ConfigError, match=r"klingon.*auto.*hermes-json"):
        read("x", format="klingon")
    with pytest.raises(ConfigError, match=r"yaml-xml.*windlass"):
        render_call("ping", {}, "yaml-xml")


def test_no_calls_render_as_empty_text() -> None:
    assert render_calls([]) == ""
    assert seen(events_of([""], TOOLS)) == ("", "", [])
