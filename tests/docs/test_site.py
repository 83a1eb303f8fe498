"""The built site: `make docs` builds it and runs these tests. The checker is always tested."""

import functools
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect
from scripts import site_check
from tests.console.axe import axe
from tests.console.stage import DESK, IN_ONE_BROWSER, PHONE, Pages, SharedContexts
from tests.support.browsing import FLAGS, HEADLESS

SITE = Path(os.environ.get("WINDLASS_SITE", ""))
BUILT = pytest.mark.skipif(
    "WINDLASS_SITE" not in os.environ, reason="`make docs` builds the site and runs this"
)
KINDS = (
    *("/", "/installation/", "/tutorials/support-agent/", "/guides/", "/guides/deploy/"),
    *("/guides/approve-calls/", "/reference/api/", "/reference/events/", "/reference/http/"),
    *("/explanation/performance/", "/clients/", "/coming-from/langgraph/"),
)
"""One page of each kind."""
POLICY = (
    "default-src 'none'; connect-src 'self'; font-src 'self'; img-src 'self' data:; "
    "script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; worker-src 'self' blob:"
)
"""A host may send this policy: the site has scripts of the theme in its pages, and loads nothing
from elsewhere."""


def test_the_checker_finds_dead_links_headings_and_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "index.html").write_text('<h2 id="here">Here</h2>')
    (tmp_path / "index.html").write_text(
        '<a href="there/">ok</a><a href="there/#here">ok</a><a href="https://example.com">ok</a>'
        '<a href="gone/">1</a><a href="there/#gone">2</a><a href="#gone">3</a>'
        '<script src="https://cdn.example.com/x.js"></script><img src="gone.png">'
    )
    assert site_check.problems(tmp_path, site_check.pages(tmp_path)) == [
        "index.html: dead link gone/",
        "index.html: no such heading there/#gone",
        "index.html: no such heading #gone",
        "index.html: loads from another host: https://cdn.example.com/x.js",
        "index.html: missing file gone.png",
    ]


class _Quiet(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def browser() -> AsyncIterator[SharedContexts]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=HEADLESS, args=FLAGS)
        yield SharedContexts(browser)
        await browser.close()


@BUILT
@pytest.mark.process
@IN_ONE_BROWSER
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desk", "phone"])
async def test_no_page_has_accessibility_problems(
    browser: SharedContexts, address: str, size: str, scheme: str
) -> None:
    """axe-core finds none, nothing is loaded from elsewhere, and no page is wider than a phone."""
    viewport = DESK if size == "desk" else PHONE
    pages = Pages(browser, address)
    context = await pages.context(viewport=viewport, color_scheme=scheme)
    page = await context.new_page()
    for path in KINDS:
        await pages.goto(page, path)
        await page.wait_for_load_state("networkidle")
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= viewport["width"], f"{path} is {width} pixels wide"
        try:
            await axe(page)
        except AssertionError as error:
            raise AssertionError(f"{path}:\n{error}") from error
    await pages.aclose()


@BUILT
@pytest.mark.process
@IN_ONE_BROWSER
async def test_the_search_finds_a_page_without_a_server(
    browser: SharedContexts, address: str
) -> None:
    pages = Pages(browser, address)
    page = await pages.open("/")
    await page.get_by_role("button", name="Search").first.click()
    await page.get_by_role("combobox").fill("idempotency")
    await expect(page.get_by_text("After a crash").first).to_be_visible()
    await pages.aclose()


@BUILT
@pytest.mark.process
@IN_ONE_BROWSER
async def test_the_three_tabs_of_the_first_page_change_its_content(
    browser: SharedContexts, address: str
) -> None:
    pages = Pages(browser, address)
    page = await pages.open("/")
    await expect(page.get_by_text("weather.py", exact=True)).to_be_visible()
    await page.locator(".tabbed-labels label", has_text="Gateway").click()
    await expect(page.get_by_text("windlass init", exact=False).first).to_be_visible()
    await pages.aclose()
