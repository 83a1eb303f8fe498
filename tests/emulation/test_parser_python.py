"""Calls in Python: each literal is parsed like Python does, or the call has an error."""

import ast
import random
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulation.parsing import TOOLS, declared, read
from tests.support.thoroughness import examples

from windlass.emulation.parse import parse
from windlass.emulation.parser.python_calls import NotPython, python_value

F = declared("f", a={}, b={}, c={})
G = declared("g", x="string")
FORMS = {
    "pythonic": "[{}]",
    "llama4-pythonic": "<|python_start|>[{}]<|python_end|>",
    "lfm2": "<|tool_call_start|>[{}]<|tool_call_end|>",
    "olmo3": "<function_calls>{}</function_calls>",
    "tool_code": "```tool_code\n{}\n```",
    "llama3-json": "<|python_tag|>{}",
}

LITERALS = [
    # Numbers.
    *("0", "00", "12", "-12", "+2", "- 3", "1_000", "1_0.0_1", "0x10", "0XfF", "0x_f", "0o7"),
    *("0b1", "0B_10", "1e5", "1E-5", "1e+5", "1_0e1_0", ".5", "5.", "-.5", "+5.e3", "007.5"),
    *("123456789012345678901234567890", "-9223372036854775809", "0x" + "f" * 40, "1.0", "-0.0"),
    # Words.
    *("None", "True", "False"),
    # Strings.
    *('""', "''", '"Paris"', "'it\\'s'", '"say \\"hi\\""', '"ä😀"', '"#no comment"'),
    *('"ab" "cd"', "'ab' \"cd\" 'ef'", '"ab"\n   "cd"', '"ab" # and\n "cd"', '"ab"\\\n"cd"'),
    *('r"\\d+\\n"', "R'\\\\'", 'r"\\""', 'r"a\\\\" "\\n"', 'u"x"', "U'x'", '"a" r"\\b" "c"'),
    *(
        '"""a "b"\nc"""',
        "'''a'b''c'''",
        '""""a"""',
        '"""\\\na\\nb"""',
        'r"""\\d"""',
        '"""a\r\nb\rc"""',
    ),
    *('"\\a\\b\\f\\n\\r\\t\\v\\\\"', '"\\x41\\u00e4\\U0001F600"', '"\\101\\7\\08\\777"', '"\\0"'),
    *('"\\N{LATIN SMALL LETTER A}\\N{em dash}\\N{LF}"', '"\\d\\/\\ "', '"a\\\nb"', '"a\\\r\nb"'),
    # Containers.
    *(
        "[]",
        "()",
        "{}",
        "[1]",
        "(1)",
        "(1,)",
        "((1))",
        "('a')",
        "('a' 'b',)",
        "(1, 2)",
        "[1, (2,), [3,],]",
    ),
    *("{1}", "{1, 2, 1, True}", "{'a', ('b', 1)}", "set()", "{'a': 1}", "{'a': {'b': [None]},}"),
    *("{'a': 1, 'b': 2, 'a': 3}", "{'a' 'b': 1}", "{\n 'a': 1, # one\n 'b': (2,\n 3),\n}"),
    *("[" * 150 + "]" * 150, "(" * 90 + "1" + ")" * 90, "{'a':" * 80 + "1" + "}" * 80),
]
UNREADABLE = [
    # Not JSON.
    *('b"x"', 'B"x"', 'rb"x"', 'Rb"x"', "1j", "1+2j", "1e400", "-1e400", "...", "Ellipsis"),
    *("{1.5: 'a'}", "{None: 1}", "{True: 1}", "{(1, 2): 3}", "{1: 'a', '1': 'b'}", '"\\ud800"'),
    # Not literals.
    *('f"x"', 'f"{x}"', 'rf"x"', "x", "x.y", "a or b", "1 + 2", "-x", "--1", "~1", "not True"),
    *('float("inf")', "float('nan')", "nan", "inf", "Infinity", "g(1)", "set([1])", "dict(a=1)"),
    *("[x for x in y]", "[*a]", "{**a}", "lambda: 1", "'a' if b else 'c'", "'a' + 'b'", "'a' % 1"),
    *("'a'.upper()", "[1][0]", "yield", "a := 1", "(a := 1)"),
    # Not Python.
    *("1__0", "1_", "_1", "0x", "0xg", "0b2", "0o8", "007", "1a", "1.2.3", "1e", "1e+", "+", "-"),
    *(
        '"\\x4"',
        '"\\xg0"',
        '"\\u12"',
        '"\\U00110000"',
        '"\\N{no such name}"',
        '"\\N{',
        '"\\N"',
        '"abc',
    ),
    *(
        '"""abc"',
        "'it's'",
        '"a" b"c"',
        'b"a" "c"',
        'ur"x"',
        'x"a"',
        "[1, 2",
        "[1 2]",
        "[,]",
        "[1,,2]",
    ),
    *(
        "{1: 2, 3}",
        "{1, 2: 3}",
        "{1:}",
        "{:1}",
        "{1: 2: 3}",
        "{[1]}",
        "{{1}}",
        "{{}: 1}",
        "(1]",
        "[1)",
    ),
    *("", "=1", "1 'a'", "'a' 1", "tru", "NULL", "@", "$", "\\x", "[" * 201 + "]" * 201),
]
MORE_THAN_PYTHON = {
    "null": None,
    "[true, false]": [True, False],
    "{'a': null}": {"a": None},
    '"one\ntwo"': "one\ntwo",
    "{1: 'a', -2: 'b'}": {"1": "a", "-2": "b"},
    '"\\ud83d\\ude00"': "😀",
}


def as_python(written: str) -> Any:
    """Returns what Python parses inside brackets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes that Python reads, but would rather not
        return ast.literal_eval(f"({written}\n)")


def listed(value: Any) -> Any:
    """Returns the value in JSON's types: tuples and sets become lists."""
    match value:
        case tuple() | list():
            return [listed(each) for each in value]
        case set():
            return sorted(map(listed, value), key=repr)
        case dict():
            return {key: listed(each) for key, each in value.items()}
        case _:
            return value


def same(got: Any, wanted: Any) -> bool:
    """Equal, of the same types, whatever the order of a set."""
    if isinstance(wanted, set):
        return isinstance(got, list) and sorted(map(repr, got)) == sorted(
            repr(listed(each)) for each in wanted
        )
    if isinstance(wanted, dict):
        return list(got) == list(wanted) and all(same(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(same, got, wanted))
    return type(got) is type(wanted) and repr(got) == repr(wanted)


def called(arguments: str, format: str = "pythonic", named: str = "auto") -> list[Any]:
    """Returns the calls in the text, and checks that they are the same by character."""
    text = FORMS[format].format(f"f({arguments})")
    whole = read(text, [F, G, *TOOLS], named)
    assert read(iter(text), [F, G, *TOOLS], named) == whole
    return whole.calls


@pytest.mark.parametrize("written", LITERALS)
def test_a_literal_is_parsed_like_python(written: str) -> None:
    wanted = as_python(written)
    for form in FORMS:
        (name, arguments), *others = called(f"a={written}", form)
        assert (name, others) == ("f", [])
        assert list(arguments) == ["a"]
        assert same(arguments["a"], wanted)


@pytest.mark.parametrize("written", MORE_THAN_PYTHON)
def test_a_few_values_are_read_that_python_reads_otherwise_or_refuses(written: str) -> None:
    assert called(f"a={written}") == [("f", {"a": MORE_THAN_PYTHON[written]})]


@pytest.mark.parametrize("written", UNREADABLE)
def test_a_value_that_is_not_a_literal_is_an_error_with_the_raw_text(written: str) -> None:
    with pytest.raises(NotPython):
        python_value(written)
    if written == "...":
        return  # such a text explains a call
    for form in ("pythonic", "lfm2"):
        calls = called(f"b=1, a={written}", form)
        assert [name for name, _ in calls] == ["f"]
        assert isinstance(calls[0][1], str)
        assert calls[0][1].startswith(f"b=1, a={written}".rstrip())


@pytest.mark.parametrize("format", FORMS)
def test_values_without_a_name_go_to_the_parameters_in_their_order(format: str) -> None:
    assert called("1, 'x'", format) == [("f", {"a": 1, "b": "x"})]
    assert called("1, c=2, b=3", format) == [("f", {"a": 1, "c": 2, "b": 3})]
    assert called("[1, 2],", format) == [("f", {"a": [1, 2]})]
    assert called("True", format, format) == [("f", {"a": True})]


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            "1, 2, 3, 4",
            "a=1, a=2",
            "1, a=2",
            "a=1, 2",
            "*[1]",
            "**{'a': 1}",
            "a=1, **{}",
            "1, *[2]",
        ),
        *("a=1 b=2", "a=1,, b=2", ", a=1", "a", "a==1", "a=", "a=,b=1", "1 2", "'x' y"),
    ],
)
@pytest.mark.parametrize("format", ["olmo3", "lfm2"])
def test_arguments_that_python_would_refuse_are_an_error(arguments: str, format: str) -> None:
    calls = called(arguments, format)
    assert calls == [("f", arguments)]


def test_a_value_without_a_name_needs_a_declared_parameter() -> None:
    text = "<|tool_call_start|>[nobody(1)]<|tool_call_end|>"
    assert read(text).calls == [("nobody", "1}")]
    assert read("[ping(1)]").calls == [("ping", "1}")]


def test_a_call_after_an_unreadable_one_is_parsed() -> None:
    for text in ("[f(a=x, b=\"a)\" '(', c=[1, (2])), g(x='y')]", "[f(a='''(\n''' + 1), g(x='y')]"):
        for pieces in ([text], iter(text)):
            found = read(pieces, [F, G])
            assert [name for name, _ in found.calls] == ["f", "g"]
            assert isinstance(found.calls[0][1], str)
            assert found.calls[1][1] == {"x": "y"}
            assert found.text == ""


def test_the_raw_text_of_a_broken_call_ends_where_its_format_ends() -> None:
    text = "<|tool_call_start|>[f(a=x, b=(1]<|tool_call_end|>After."
    found = read(text, [F])
    assert found.calls == [("f", "a=x, b=(1]")]
    assert found.text == "After."


def test_values_without_names_in_the_middle_of_a_line_are_text() -> None:
    for text in (
        "Write [get_weather('Paris')] here.",
        "[get_weather(city)]",
        "[get_weather(city=...)]",
    ):
        assert read(text) == (text, "", [])
        assert read(iter(text)) == (text, "", [])


def test_a_call_that_lacks_only_its_last_bracket_is_read_unless_it_was_truncated() -> None:
    assert read("[f(a='x', b=[1]", [F]).calls == [("f", {"a": "x", "b": [1]})]
    for text in ("[f(a=1", "[f(a='x", "[f(a='x',", "[f(a=[1"):
        assert [type(arguments) for _, arguments in read(text, [F]).calls] == [str]
    assert [type(a) for _, a in read("[f(a='x'", [F], truncated=True).calls] == [str]


def test_python_in_a_tag_is_read_as_python_reads_it() -> None:
    for written, kind, value in (
        ("('a', 'b')", "array", ["a", "b"]),
        ("['a' 'b', 0x10, '\\x41']", "array", ["ab", 16, "A"]),
        ("{'a': (1,), 'b': 1_000}", "object", {"a": [1], "b": 1000}),
        ('{"a": "\\/", "b": [true]}', "object", {"a": "/", "b": [True]}),
        ("[a, b]", "array", "[a, b]"),
        ("{1, 2}", "array", [1, 2]),
    ):
        text = f"<tool_call><function=f><parameter=a>{written}</parameter></function></tool_call>"
        assert read(text, [declared("f", a=kind)]).calls == [("f", {"a": value})]


# Random literals, written in several ways.

plain = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")
    | st.sampled_from("'\"\\\nab {}()[],#"),
    max_size=12,
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain
)
hashable = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(plain, inner, max_size=4)
        | st.sets(hashable, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


class Renderer:
    """Writes a value as Python, each part in a random notation."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def value(self, value: Any) -> str:
        match value:
            case str():
                return self._text(value)
            case bool() | None:
                return repr(value)
            case int():
                return self._integer(value)
            case float():
                return self._chance.choice([repr, lambda v: f"{v:.17e}", lambda v: f"+{v!r}"])(
                    value
                ).replace("+-", "-")
            case list():
                return f"[{self._items(value)}]"
            case tuple():
                return f"({''.join(self.value(each) + self._space() + ',' for each in value)})"
            case set():
                return f"{{{self._items(value)}}}"
            case _:
                members = (
                    f"{self._text(k)}{self._space()}:{self.value(v)}" for k, v in value.items()
                )
                return f"{{{self._joined(members)}}}"

    def _items(self, items: Any) -> str:
        return self._joined(self.value(item) for item in items)

    def _joined(self, written: Any) -> str:
        text = f"{self._space()},{self._space()}".join(written)
        return (
            text
            + self._space()
            + (self._chance.choice(["", ","]) if text and text[-1] != "," else "")
        )

    def _space(self) -> str:
        return self._chance.choice(["", "", " ", "\n\t", " # ') \n", "\\\n"])

    def _integer(self, value: int) -> str:
        ways = [repr, hex, oct, bin, lambda v: f"{v:_}", lambda v: f"{v:#_x}", lambda v: f"{v:+d}"]
        return self._chance.choice(ways)(value)

    def _text(self, text: str) -> str:
        if len(text) > 1 and self._chance.random() < 0.3:
            cut = self._chance.randrange(1, len(text))
            return self._text(text[:cut]) + self._space() + self._text(text[cut:])
        ways = [repr, self._escaped, self._raw, self._triple, ascii]
        return self._chance.choice(ways)(text)

    def _escaped(self, text: str) -> str:
        ways = [lambda c: f"\\U{ord(c):08x}", lambda c: f"\\{min(ord(c), 0o777):03o}"]
        return '"' + "".join(ways[ord(c) < 0o400](c) for c in text) + '"'

    def _raw(self, text: str) -> str:
        quote = self._chance.choice("\"'")
        fits = not any(c in text for c in f"{quote}\n") and not text.endswith("\\")
        return f"r{quote}{text}{quote}" if fits else repr(text)

    def _triple(self, text: str) -> str:
        return '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'


@settings(max_examples=examples(50), deadline=None)
@given(value=values, seed=st.integers(0, 10**6))
def test_any_literal_is_read_as_python_reads_it_whole_and_by_the_character(
    value: Any, seed: int
) -> None:
    written = Renderer(seed).value(value)
    wanted = as_python(written)
    text = f"[f(a={written})]"
    for pieces in ([text], iter(text)):
        (call,) = parse(pieces, [F]).calls
        assert isinstance(call.arguments, dict), call.error
        assert same(call.arguments["a"], wanted)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *"\"'\\()[]{},:=*+-._#rbfuxN0178eEj \n",
                '"""',
                "0x",
                "1_",
                "None",
                "\\x4",
                "\\u00",
                "\\N{",
            ]
        ),
        max_size=12,
    ).map("".join)
)
def test_random_text_is_parsed_like_python_or_refused(written: str) -> None:
    try:
        wanted = as_python(written) if written.strip() else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        wanted = None
    try:
        got = python_value(written)
    except NotPython:
        return
    if wanted is not None:
        assert same(listed(got), wanted)
    else:  # only the documented extensions
        assert "\n" in written or got is None or isinstance(got, dict)
