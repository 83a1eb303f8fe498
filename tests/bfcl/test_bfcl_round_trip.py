"""BFCL's gold calls, written in every format, are read back as they were.

Each format takes its own part of the cases; `make bfcl` takes them all.
"""

import random
from collections.abc import Callable, Iterable, Iterator

import pytest
from tests.bfcl.data import Case, cases, exact
from tests.support.thoroughness import WHOLE_BFCL

from windlass.emulation.parse import parse
from windlass.emulation.parser import render_calls
from windlass.emulation.parser.render import TEMPLATES

pytestmark = pytest.mark.sweep

EVERY = 1 if WHOLE_BFCL else 40
EVERY_IN_PIECES = 10 if WHOLE_BFCL else 120

# fmt: off
WANTED = {
    "hermes-json", "qwen3-coder-xml", "gemma4", "deepseek-dsml", "deepseek-v3", "deepseek-v31",
    "glm45", "lfm2", "kimi-k2", "xml-tool-tag", "react", "minimax-m2", "llama3-json", "mistral",
    "mistral-json", "mistral-name-args", "cohere", "seed-oss", "olmo3", "pythonic",
    "llama4-pythonic", "bare-json", "json-fence", "json-fence-action", "json-array",
    "json-tool_calls", "harmony", "functiongemma", "granite", "granite-20b", "granite4", "xlam",
    "openhands-function", "hunyuan-a13b", "internlm2", "jamba", "phi4mini", "anthropic-invoke",
    "request-function-call", "langchain-xml", "nemotron", "functionary", "firefunction",
    "tool_code", "windlass",
}
# fmt: on


def test_every_wanted_format_can_be_written() -> None:
    assert TEMPLATES.keys() >= WANTED


@pytest.mark.parametrize("format", TEMPLATES)
def test_reference_calls_are_read_from_text_in_a_named_format(format: str) -> None:
    _check(format, EVERY, lambda case, text: _problem(case, text, format))


@pytest.mark.parametrize("format", TEMPLATES)
def test_reference_calls_are_read_from_pieces_in_a_detected_format(format: str) -> None:
    _check(format, EVERY_IN_PIECES, lambda case, text: _problem(case, _pieces(text), "auto"))


def _check(format: str, every: int, problem: Callable[[Case, str], str | None]) -> None:
    """The choice of cases depends only on the format."""
    sample = cases()[random.Random(format).randrange(every) :: every]
    found = [problem(case, render_calls(case.calls, format)) for case in sample]
    problems = [text for text in found if text is not None]
    assert not problems, f"{len(problems)} of {len(sample)}, first {problems[0]}"


def _problem(case: Case, text: str | Iterable[str], format: str) -> str | None:
    """The differences between the sent calls and the parsed ones."""
    parsed = parse(text, case.tools, format)
    if parsed.content.strip():
        return f"{case.id}: text {parsed.content!r}"
    if exact(parsed.calls) != exact(case.calls):
        return f"{case.id}: {exact(case.calls)} came back as {exact(parsed.calls)}"
    return None


def _pieces(text: str) -> Iterator[str]:
    chance = random.Random(text)
    while text:
        size = chance.choice((1, 2, 3, 5, 8, 30))
        yield text[:size]
        text = text[size:]
