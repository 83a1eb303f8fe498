"""Every Python block of the documentation runs unchanged, page by page."""

import re
from pathlib import Path
from typing import Any

import pytest

from windlass.testing import FakeOpenAI, Turn, call, say, tool_results

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {
    "durable-runs.md": pytest.mark.process,
    "local.md": pytest.mark.weights,
    "workers.md": pytest.mark.process,
}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks of a page with the lines that they begin at."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start(1)), m.group(1)) for m in BLOCK.finditer(text)]


def _with_its_needs(page: Path) -> Any:
    return pytest.param(page, id=page.name, marks=NEEDS.get(page.name, ()))


@pytest.mark.parametrize("page", [_with_its_needs(page) for page in PAGES])
def test_the_examples_of_a_page_run_in_order(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a page uses OpenAI, a fake answers at the address in the environment."""
    if page.stem == "fastapi":
        pytest.importorskip("fastapi")
    namespace = {"__name__": page.stem}
    with FakeOpenAI(_weather_then_answer) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        for line, source in blocks(page):
            exec(compile("\n" * line + source, str(page), "exec"), namespace)


def _weather_then_answer(request: dict[str, Any]) -> Turn:
    if "response_format" in request:
        return say('{"number": "A-17", "total": 37.5}')
    return say("It is sunny.") if tool_results(request) else call("get_weather", city="Paris")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
