"""axe-core on a page, under the page's own policy."""

from functools import cache

from playwright.async_api import Page
from scripts.console_project import PROJECT, install

__all__ = ["axe"]

RUN = """async (options) => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...options });
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map((node) => `${id}: ${help}: ${node.target.join(" ")}: ${node.failureSummary}`));
}"""


async def axe(page: Page, *, only: str | None = None, but: str | None = None) -> None:
    """Raises `AssertionError` for barriers on the page.

    Applies all rules, `only` one of them, or all `but` one.
    """
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(_source())
    chosen = {"runOnly": [only]} if only else {}
    left_out = {"rules": {but: {"enabled": False}}} if but else {}
    if violations := await page.evaluate(RUN, {**chosen, **left_out}):
        raise AssertionError("\n".join(violations))


@cache
def _source() -> str:
    install()
    return (PROJECT / "node_modules" / "axe-core" / "axe.min.js").read_text()
