"""Every Python block of the documentation runs unchanged, page by page."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.testing import FakeOpenAI, Turn, call, say, tool_results

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = DOCS / "reference"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if GENERATED not in page.parents),
]
NEEDS = {
    "docs/durable-runs.md": pytest.mark.process,
    "docs/local.md": pytest.mark.weights,
    "docs/workers.md": pytest.mark.process,
}
WITH_BLOCKS = [page for page in PAGES if "```python\n" in page.read_text("utf-8")]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks of a page with the lines that they begin at."""
    text = page.read_text("utf-8")
    return [(text.count("\n", 0, m.start(1)), m.group(1)) for m in BLOCK.finditer(text)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _with_its_needs(page: Path) -> Any:
    return pytest.param(page, id=name_of(page), marks=NEEDS.get(name_of(page), ()))


@pytest.mark.sweep
@pytest.mark.parametrize("page", [_with_its_needs(page) for page in WITH_BLOCKS])
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


def test_links_between_pages_have_targets() -> None:
    """`make docs` also checks headings, and the links to the generated pages."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#\s]+)", page.read_text("utf-8")):
            found = (page.parent / target).resolve()
            assert found.exists() or GENERATED in found.parents, f"{name_of(page)}: {target}"


def test_the_navigation_has_every_page_once() -> None:
    """A page that is missing there can only be found by a search."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = [page for page in _pages_in(site["project"]["nav"]) if "reference/" not in page]
    pages = [str(page.relative_to(DOCS)) for page in PAGES if DOCS in page.parents]
    assert sorted(listed) == sorted(pages)


def _pages_in(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages_in(each)


def test_the_pictures_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', readme)
    assert len(pictures) == 2
    assert all((ROOT / picture).exists() for picture in pictures)
