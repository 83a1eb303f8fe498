"""Example calls: the text around them makes them text, in every format."""

import textwrap
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulation.parsing import TOOLS, read
from tests.support.thoroughness import WHOLE, examples

from windlass.emulation.parser import Parser, render_call
from windlass.emulation.parser.render import TEMPLATES
from windlass.events import TextDelta

CALLED = [("get_weather", {"city": "Paris"})]
HERMES = render_call(*CALLED[0])


def in_one_line(call: str) -> str:
    return " ".join(call.split("\n"))


def prefixed(mark: str) -> Callable[[str], str]:
    return lambda call: "\n".join(mark + line for line in call.split("\n"))


SURROUNDINGS: dict[str, Callable[[str], str]] = {
    # Code spans.
    "a code span": lambda call: f"Write `{in_one_line(call)}` and it runs.",
    "a code span of many lines": lambda call: f"Write `{call}` and it runs.",
    "a code span of two backticks": lambda call: f"Write ``{call}`` and it runs.",
    "a code span that holds a backtick": lambda call: f"Write `` ` {call} `` and it runs.",
    "a code span with words before": lambda call: f"The `tool` writes `so: {call}`.",
    # Fences.
    "a longer fence": lambda call: f"````\n{call}\n````\nThat is all.",
    "a longer fence with a language": lambda call: f"So:\n\n`````markdown\n{call}\n`````",
    "a longer fence around a fence": lambda call: f"````md\n```\n```\n\n{call}\n\n```\n````\nEnd.",
    "a longer fence in tildes": lambda call: f"~~~~\n~~~\n{call}\n~~~\n~~~~",
    "an indented longer fence": lambda call: f"- So:\n  ````\n{prefixed('  ')(call)}\n  ````",
    # Indented blocks.
    "an indented block": lambda call: f"For example:\n\n{prefixed('    ')(call)}\n\nThat is all.",
    "a block indented by a tab": lambda call: f"For example:\n\n{prefixed(chr(9))(call)}",
    "a block indented by more": lambda call: f"For example:\n\n{prefixed('      ')(call)}\nEnd.",
    # Tables.
    "a table cell": lambda call: f"| Format | Example |\n|---|---|\n| x | {in_one_line(call)} |",
    "the first cell of a row": lambda call: f"| Example |\n|---|\n|{in_one_line(call)}|",
    "a table without edges": lambda call: f"Format | Example\n---|---\nx | {in_one_line(call)}",
    # Quotation marks.
    "quotation marks": lambda call: f'He wrote "{in_one_line(call)}" to me.',
    "quotation marks around lines": lambda call: f'He wrote "{call}" to me.',
    "quotation marks with words before": lambda call: f'He wrote "so: {in_one_line(call)}".',
    "single quotation marks": lambda call: f"Don't write '{in_one_line(call)}' here.",
    "curly quotation marks": lambda call: f"He wrote “like this: {call}” to me.",
    "single curly quotation marks": lambda call: f"He wrote ‘{call}’ to me.",
    "german quotation marks": lambda call: f"Er schrieb „so: {call}“ hin.",
    "french quotation marks": lambda call: f"Il a écrit « {call} ».",
    "japanese quotation marks": lambda call: f"彼は「{call}」と書いた。",
    # Comments.
    "a comment": lambda call: f"<!-- {in_one_line(call)} -->",
    "a comment of many lines": lambda call: f"Text.\n<!--\nExample:\n\n{call}\n\n-->\nMore.",
    "a comment after a comment": lambda call: f"<!-- a --> b <!-- c: {call} -->",
    "a fence in a comment": lambda call: f"<!--\n```\nx\n```\n{call}\n-->",
    # HTML.
    "an element of code": lambda call: f"Write <code>{in_one_line(call)}</code> and it runs.",
    "an element of code with words": lambda call: f"Write <code>so: {call}</code> and it runs.",
    "preformatted lines": lambda call: f"Write:\n<pre>\n{call}\n</pre>\nand it runs.",
    "code in preformatted lines": lambda call: f"<pre><code>x</code>\n{call}</pre>",
    # Diffs.
    "an added line": lambda call: f"The change:\n{prefixed('+')(call)}",
    "a removed line": lambda call: f"The change:\n{prefixed('-')(call)}",
    "a diff": lambda call: (
        f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n{prefixed('- ')(call)}\n"
        f"{prefixed('+ ')(call)}\n{prefixed(' ')(call)}"
    ),
    # Logs.
    "a log line": lambda call: f"2026-05-01 12:00:00,123 INFO agent: {in_one_line(call)}",
    "a log line of many lines": lambda call: f"2026-05-01T12:00:00Z agent said {call}",
    "a log line in brackets": lambda call: f"The log:\n[12:00:01] model: {call}",
    "a log level": lambda call: f"DEBUG:model:{in_one_line(call)}",
    "a log level in brackets": lambda call: f"Seen:\n[INFO] {call}\n[INFO] done",
    "a line of syslog": lambda call: f"May  1 12:00:00 host agent[7]: {in_one_line(call)}",
    "fields of a log": lambda call: f"time=2026-05-01T12:00:00Z level=info msg={call}",
    # Quoted blocks.
    "a quoted block": lambda call: f"He wrote:\n\n{prefixed('> ')(call)}",
    "a quoted block that goes on": lambda call: f"He wrote:\n\n> so: {call}",
}


DIFFS = ("an added line", "a removed line", "a diff")


@pytest.mark.sweep
@pytest.mark.parametrize("format", sorted(TEMPLATES))
def test_an_example_call_is_text(format: str) -> None:
    """Every format takes another third of the surroundings, and with WHOLE=1 all of them."""
    first, step = (0, 1) if WHOLE else (sorted(TEMPLATES).index(format) % 3, 3)
    for name, surrounded in list(SURROUNDINGS.items())[first::step]:
        text = surrounded(render_call(*CALLED[0], format).strip())
        for named, pieces in product(("auto", format), ([text], list(text))):
            found = read(pieces, format=named)
            assert found.calls == [], name
            if format == "deepseek-v3" and name in DIFFS:  # only the token at its end is known
                assert found.text.startswith(text[:40])
            else:
                assert found.text == text, name


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_a_call_after_an_example_is_a_call(name: str) -> None:
    text = f"{SURROUNDINGS[name](HERMES)}\n\n{HERMES}"
    for pieces in ([text], iter(text)):
        assert read(pieces).calls == CALLED


OPEN = {
    "the whole answer": "{}",
    "the beginning of the answer": "{}\nand then more.",
    "the beginning of the answer, indented": "    {}",
    "a line of its own": "Let me look.\n{}\nDone.",
    "a paragraph of its own": "Let me look:\n\n{}\n\nDone.",
    "the end of a sentence": "Let me look. {}",
    "after a colon": "Here it is: {}",
    "right after a word": "Let me look{}",
    "after an apostrophe": "I'll see what's in the users' list. {}",
    "after a quotation": "You asked for \"Paris\" and 'Rome'. {}",
    "after inches": 'The 24" screen it is. {}',
    "after a code span": "I use `get_weather` with ``a ` b``. {}",
    "after a quotation in a code span": 'The `"` sign. {}',
    "after a pipe in a code span": "I run `ls | wc`. {}",
    "after a pipe": "I run ls | wc for you. {}",
    "after an open quotation in the line before": "He said 'no.\n{}",
    "after a comment": "<!-- a --> {}",
    "after a mention of a comment": "It begins with `<!--` as always.\n\n{}",
    "after a block of code": "```html\n<!-- a 'quote\n```\n{}",
    "after a longer block of code": "````\n```\n````\n{}",
    "after a table": "| a | b |\n|---|---|\n| c | d |\n\n{}",
    "after a diff": "+++ b/x\n@@ -1 +1 @@\n-a\n+b\n{}",
    "after a log line": "2026-05-01 12:00:00 INFO started\n{}",
    "after an element of code": "With <code>x</code>, so: {}",
    "after a tag in another paragraph": "The <pre> tag.\n\n{}",
    "after a quoted block": "> He wrote.\n\n{}",
    "after a negative number": "-5 degrees. {}",
    "indented by two": "Let me look.\n  {}",
    "a line in a list item": "- Let me look:\n  {}",
    "right after the last word of a list": "My plan:\n1. Look\n2. Answer{}",
    "right after a heading": "# Weather\n{}",
    "after brackets": "I (your helper) see [the list](http://x). {}",
    "after a smiley": "Sorry :( Once more. {}",
    "after a bracket in the line before": "(I look\n{}",
    "after a price": "It costs $5. {}",
    "after a formula": "With $$a$$ in mind: {}",
    "in a sentence": "Before {} after",
}


@pytest.mark.parametrize("format", ["hermes-json", "qwen3-coder-xml", "kimi-k2", "mistral"])
def test_a_call_outside_of_quotations_is_a_call(format: str) -> None:
    for name, around in OPEN.items():
        text = around.format(render_call(*CALLED[0], format))
        for named, pieces in product(("auto", format), ([text], list(text))):
            assert read(pieces, format=named).calls == CALLED, name


ASIDES: dict[str, Callable[[str], str]] = {
    "a list item": lambda call: f"So:\n- {in_one_line(call)}\n- and more",
    "a list item of many lines": lambda call: f"So:\n* {call}",
    "a numbered item": lambda call: f"1. {in_one_line(call)}\n2. Wait.",
    "a sentence of a list item": lambda call: f"2) Write {in_one_line(call)} then.",
    "a heading": lambda call: f"## {in_one_line(call)}\n\nThat was it.",
    "a heading with words": lambda call: f"# How {in_one_line(call)} works",
    "parentheses": lambda call: f"It writes a call ({in_one_line(call)}) and waits.",
    "parentheses with words": lambda call: f"It calls (like this: {call}) and waits.",
    "full-width parentheses": lambda call: f"呼び出し（{in_one_line(call)}）です。",
    "a link label": lambda call: f"See [{in_one_line(call)}](https://example.com).",
    "a link label with words": lambda call: f"See [the call {call}](https://example.com).",
    "a formula": lambda call: f"The value is $${in_one_line(call)}$$ here.",
    "a formula of many lines": lambda call: f"$$\nx = 1\n{call}\n$$",
}
TOKENS = ("<|", "<\uff5c", "[TOOL_CALLS]", "]<]", "<start_function_call>")
BARE = ("{", "[")
LINES = ("```", "Action", "functools", ">>>", "to=", "Request function call")
WRITTEN = {name: render_call(*CALLED[0], name).strip() for name in sorted(TEMPLATES)}
PLAIN = [name for name, call in WRITTEN.items() if not call.startswith((*TOKENS, *LINES))]


@pytest.mark.parametrize("format", PLAIN)
def test_a_call_with_text_beside_it_is_text(format: str) -> None:
    for name, beside in ASIDES.items():
        text = beside(WRITTEN[format])
        for named, pieces in product(("auto", format), ([text], list(text))):
            assert read(pieces, format=named) == (text, "", []), name


@pytest.mark.parametrize("format", ["kimi-k2", "mistral", "deepseek-v31"])
def test_special_tokens_are_calls_at_any_position(format: str) -> None:
    for name, beside in ASIDES.items():
        text = beside(WRITTEN[format])
        for pieces in ([text], list(text)):
            assert read(pieces, format=format).calls == CALLED, name


@pytest.mark.parametrize("format", [n for n in PLAIN if WRITTEN[n].startswith(BARE)])
def test_a_call_without_markers_in_a_sentence_is_text(format: str) -> None:
    call = in_one_line(WRITTEN[format])
    for text in (f"Write {call} to look.", f"For example, {call} looks."):
        for pieces in ([text], iter(text)):
            assert read(pieces, format=format) == (text, "", [])
    for text in (f"Let me look. {call}", f"Here it is: {call}", f"Look!\n{call} then"):
        for pieces in ([text], iter(text)):
            assert read(pieces, format=format).calls == CALLED


def test_a_call_after_a_call_may_be_indented() -> None:
    assert read(f"{HERMES}\n    {HERMES}\n\n\t{HERMES}").calls == CALLED * 3


def test_models_that_indent_their_tokens_and_actions_are_understood() -> None:
    call = textwrap.indent(render_call(*CALLED[0], "deepseek-dsml"), " " * 8)
    action = '    Action:\n    ```json\n    {"action": "search", "action_input": "x"}\n    ```'
    for text, calls in ((call, CALLED), (action, [("search", {"query": "x"})])):
        assert read(f"I will do that.\n\n{text}").calls == calls
        assert read(f"An example:\n\n{text}").calls == []


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_around_example_calls_only_the_start_of_a_marker_is_held_back(name: str) -> None:
    parser, text = Parser(TOOLS), SURROUNDINGS[name](HERMES)
    longest = len("\n      <tool_call>\n      {")
    passed = 0
    for place, letter in enumerate(text, start=1):
        passed += sum(len(e.text) for e in parser.feed(letter) if isinstance(e, TextDelta))
        assert place - passed <= longest


def test_a_fence_after_a_label_that_is_not_a_call_is_a_block_of_code() -> None:
    text = 'Action:\n```json\n{"name": "nobody", "size": 3}\n```\nThat is all.'
    for pieces in ([text], iter(text)):
        assert read(pieces) == (text, "", [])


MARKS = [
    *(
        "`",
        "``",
        "```",
        "````",
        '"',
        "'",
        "“",
        "”",
        "„",
        "‘",
        "’",
        "«",
        "»",
        "<!--",
        "-->",
        "| ",
        "|---|---|",
    ),
    *(
        "+",
        "-",
        "- ",
        "> ",
        "@@ -1 +1 @@\n",
        "2026-05-01 12:00:00 INFO ",
        "    ",
        "\t",
        "\n",
        "\n\n",
        " ",
    ),
    *(
        "word",
        "x:",
        "5",
        "\\",
        "(",
        ")",
        "[",
        "](",
        ":(",
        "$",
        "$$",
        "# ",
        "1. ",
        HERMES,
        in_one_line(HERMES),
        '{"name": "ping", "arguments": {}}',
        "[ping()]",
    ),
    *("<tool_call>", "~~~", "~~~~", "```json\n", "Action:\n", "<|im_end|>", "<think>"),
]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(MARKS), max_size=25).map("".join), st.integers(1, 9))
def test_surroundings_are_the_same_however_the_text_is_cut(text: str, size: int) -> None:
    whole = read(text)
    assert read(iter(text)) == whole
    assert read(text[place : place + size] for place in range(0, len(text), size)) == whole


@pytest.mark.sweep
@pytest.mark.parametrize("mark", MARKS)
def test_long_text_scanned_in_pieces_gives_the_same_result(mark: str) -> None:
    text = (mark + "a. ") * (700 if WHOLE else 100) + HERMES
    whole = read(text)
    assert read(iter(text)) == whole
    text = (mark + "a. ") * 2_500 + HERMES
    whole = read(text)
    for size in (19, 23) if WHOLE else (19,):
        assert read(text[place : place + size] for place in range(0, len(text), size)) == whole
