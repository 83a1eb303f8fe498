"""axe-core on a page, under the page's own policy."""

from functools import cache

from playwright.async_api import Page
from scripts.console_project import PROJECT, install

__all__ = ["axe"]

RUN = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.target.join(" ")}: ${node.failureSummary}`));
}"""


async def axe(page: Page) -> None:
    """Raises `AssertionError` for what keeps people from using the page."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(_source())
    assert await page.evaluate(RUN) == []


@cache
def _source() -> str:
    install()
    return (PROJECT / "node_modules" / "axe-core" / "axe.min.js").read_text()
