# ruff: noqa: E501 - a body and its value are easier to compare in one line
"""YAML between a tool's tags: values keep their structure; unsupported YAML is an error."""

from typing import Any

import pytest
from tests.emulation.parsing import declared, read

F = declared("f", a={}, b={}, text="string", n="integer", o="object", tags="array")
BODIES: list[tuple[str, Any]] = [
    # Scalars take their type from the schema, and else from YAML.
    ("a: 1\nb: 1.5e3", {"a": 1, "b": 1500.0}),
    ("a: true\nb: ~", {"a": True, "b": None}),
    ("a: 0x10\nb: yes", {"a": 16, "b": "yes"}),
    ("text: 42\nn: 42", {"text": "42", "n": 42}),
    ("text: true\nn: '7'", {"text": "true", "n": 7}),
    ("text: a: b # c", {"text": "a: b"}),
    ("text: a#b", {"text": "a#b"}),
    ("text:\n  on the\n  next lines\n\n  and more", {"text": "on the next lines\nand more"}),
    # Nested mappings and lists.
    ("o:\n  x: 1\n  y:\n    z: [1, two]\n  w: {p: q, r: }", {"o": {"x": 1, "y": {"z": [1, "two"]}, "w": {"p": "q", "r": None}}}),
    ("a:\n  b:\n    c:\n      d: e\nb: 2", {"a": {"b": {"c": {"d": "e"}}}, "b": 2}),
    ("tags:\n- a\n- 'b: c'\n- 3", {"tags": ["a", "b: c", 3]}),
    ("tags:\n  - x: 1\n    y: 2\n  -\n    x: 3\n  - - 4\n    - 5", {"tags": [{"x": 1, "y": 2}, {"x": 3}, [4, 5]]}),
    ("o:\n  list:\n    - a\n    - b\n  'quoted key': 1", {"o": {"list": ["a", "b"], "quoted key": 1}}),
    ("tags: [a, 'b, c', {d: 1},\n  [2],\n]", {"tags": ["a", "b, c", {"d": 1}, [2]]}),
    ("o: {}\ntags: []", {"o": {}, "tags": []}),
    # Quoted texts.
    ("a: '42'\nb: \"true\"", {"a": "42", "b": "true"}),
    ("text: \"a\\n\\x41\\u00e4\\\"b\" # c", {"text": 'a\nAä"b'}),
    ("text: 'it''s # here: yes'", {"text": "it's # here: yes"}),
    ("text: \"one\n  two\n\n  three\\\n  four\"", {"text": "one two\nthreefour"}),
    # Block texts.
    ("text: |\n  a: b\n    # c\n\n  d\nn: 1", {"text": "a: b\n  # c\n\nd\n", "n": 1}),
    ("text: |-\n  x\n\n", {"text": "x"}),
    ("text: |+\n  x\n\n", {"text": "x\n\n\n"}),
    ("text: |\n  all:\n  \ttabs\tstay\n", {"text": "all:\n\ttabs\tstay\n"}),
    ("text: >\n  a\n  b\n\n  c\n    d\n  e\n", {"text": "a b\nc\n  d\ne\n"}),
    ("text: |2\n    two more\n  x\n", {"text": "  two more\nx\n"}),
    ("o:\n  code: |\n    def f():\n        return 1\n  n: 2", {"o": {"code": "def f():\n    return 1\n", "n": 2}}),
    # Comments and empty lines.
    ("a: 1 # first\n\n  # then\nb: 2 # last\n", {"a": 1, "b": 2}),
]  # fmt: skip


def called(body: str) -> Any:
    text = f"Now.\n<f>\n{body}\n</f>\nDone."
    whole = read(text, [F])
    assert read(iter(text), [F]) == whole
    assert whole.text.split() == ["Now.", "Done."]
    ((name, arguments),) = whole.calls
    assert name == "f"
    return arguments


@pytest.mark.parametrize(("body", "arguments"), BODIES)
def test_a_body_is_parsed_like_yaml(body: str, arguments: Any) -> None:
    assert called(body) == arguments


@pytest.mark.parametrize(("body", "arguments"), BODIES)
def test_a_body_may_be_indented(body: str, arguments: Any) -> None:
    assert called("\n".join(f"  {line}" for line in body.split("\n"))) == arguments


@pytest.mark.parametrize(
    "body",
    [
        *("a: &x 1\nb: *x", "a: !!int 1", "a: 1\na: 2", "a: [1, 2", "a: {b: 1", "a: 'x", 'a: "\\q"'),
        *("a: 1\n   b: 2", "a: - 1", "a: .inf", "a: .nan", "a: 1e999", "a: {? b : c}"),
        *("a:\n\tb: 1", "a: @x", "a: `x`", "a: 1\nno key here", "a: 1\n<<: {b: 2}", "a: 'x' y", "a: [b: c]"),
        "a: " + "[" * 200 + "]" * 200,
    ],
)  # fmt: skip
def test_unsupported_yaml_is_an_error_with_the_raw_text(body: str) -> None:
    assert called(body).strip() == body


def test_a_closing_tag_inside_a_block_text_is_text() -> None:
    body = "text: |\n  <f>\n  a: 1\n  </f>\n  and </f> too\nn: 1"
    assert called(body) == {"text": "<f>\na: 1\n</f>\nand </f> too\n", "n": 1}


def test_a_truncated_body_never_runs() -> None:
    text = "<f>\ntext: rm -rf /tmp/x\nn: 1\n</f>"
    for end in range(len("<f>\nt"), len(text)):
        for _, arguments in read(text[:end], [F], truncated=True).calls:
            assert isinstance(arguments, str)
