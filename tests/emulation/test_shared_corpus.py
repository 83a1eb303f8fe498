"""Parser tests of other projects, if they are available."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.emulation.corpus_adapter import parse

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not part of the project")

# These expect that text after a call is dropped, or that a broken tag is part of the name.
OTHER_OPINIONS = 5


def corpus() -> tuple[Any, list[Any]]:
    sys.path.insert(0, str(CORPUS))
    try:
        import score  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.remove(str(CORPUS))
    cases = map(json.loads, (CORPUS / "dev.jsonl").read_text().splitlines())
    return score, [case for case in cases if case["tier"] == "A" and case["core"]]


@pytest.mark.sweep
@pytest.mark.parametrize("hint", [False, True])
def test_core_cases_parse_the_same_whole_and_by_character(hint: bool) -> None:
    score, cases = corpus()
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case in cases:
        tools, name = score.tools_of(case), case["format"] if hint else None
        prefix = [case["prefix"]] if case.get("prefix") else []
        whole = parse(iter([*prefix, case["text"]]), tools, name)
        total[case["class"]] += 1
        right[case["class"]] += score.verdict(case, whole)["ok"]
        assert score.same(whole, parse(iter([*prefix, *case["text"]]), tools, name)), case["id"]
    assert right["none"] == total["none"]
    assert right["lookalike"] == total["lookalike"]
    assert right["malformed"] >= 30
    assert right["call"] >= total["call"] - OTHER_OPINIONS
