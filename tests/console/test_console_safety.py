"""Whatever a model or a tool writes, the page shows it as text; and a key stays where it is."""

import logging

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, card, ended

from windlass.gateway.config import KeyConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import call, calls, say, think

pytestmark = IN_ONE_BROWSER

SCRIPT = "<script>window.harmed = true</script>"
IMAGE = "<img src=x onerror='window.harmed = true'>"
MARKDOWN = (
    f"{SCRIPT}\n\n{IMAGE}\n\n[press](javascript:window.harmed=true) and"
    " ![seen](https://example.org/spy.png) and <https://example.org/a>\n\n"
    f"| a |\n|---|\n| {IMAGE} |\n\n```html\n{SCRIPT}\n```"
)
TOOL = "<b>bold</b>"
"""A name that a confused model gives a tool."""
UNAUTHORIZED = "Failed to load resource.*401"


async def is_unharmed(page: Page) -> None:
    """Nothing that was written has become an element, or has run."""
    assert await page.evaluate("() => window.harmed") is None
    assert await page.locator("script").count() == 1
    for made in ("img:not([src^='data:'])", "main b", "iframe", "object", "main [style]"):
        assert await page.locator(made).count() == 0, made
    links = await page.locator("a[href]").evaluate_all(
        "links => links.map((link) => link.protocol)"
    )
    assert set(links) <= {"http:", "https:", "mailto:", "blob:"}


async def test_markup_stays_text_wherever_it_comes_from(stage_of: StageOf) -> None:
    stage = await stage_of(
        [
            think(
                MARKDOWN,
                calls(call("quote", text=SCRIPT), call(TOOL, text=IMAGE), text=MARKDOWN),
            ),
            say(MARKDOWN),
        ]
    )
    page = await stage.open("/")
    await ask(page, f"What is {SCRIPT}{IMAGE}?")
    await ended(page)
    await expect(card(page, "quote")).to_have_attribute("data-state", "output-available")
    for summary in await page.locator("main summary").all():
        await summary.click()
    await expect(page.get_by_text(SCRIPT).first).to_be_visible()
    await expect(page.locator(".card").nth(1)).to_have_attribute("data-outcome", "unknown_tool")
    await expect(page.locator(".card").nth(1).get_by_text(TOOL).first).to_be_visible()
    await is_unharmed(page)

    for path in ("/runs", "/tools/quote"):
        await stage.goto(page, path)
        await expect(page.get_by_text("<script>").first).to_be_visible()
        await is_unharmed(page)


async def test_a_script_that_gets_into_the_page_does_not_run(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/")
    await expect(page.get_by_role("banner")).to_be_visible()
    await page.evaluate(
        """() => {
          const script = document.createElement("script");
          try { script.text = "window.harmed = true" } catch { window.refused = true }
          document.body.append(script);
          const image = new Image();
          image.src = "https://example.org/spy.png";
          document.body.append(image);
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          document.head.append(style);
        }"""
    )
    await expect(page.get_by_role("banner")).to_be_visible()
    assert await page.evaluate("() => [window.harmed, window.refused]") == [None, True]
    for directive in ("require-trusted-types-for", "img-src", "style-src"):
        assert any(f"policy: {directive}" in said for said in stage.watch.problems), directive
        stage.watch.expects(directive)
    stage.watch.expects("TrustedScript|spy.png")


async def test_a_key_is_asked_for_and_stays_in_its_tab(
    stage_of: StageOf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key, kept = new_key()
    stage = await stage_of(
        "Hello.", keys=[KeyConfig(name="web", hash=kept)], server={"access_log": True}
    )
    stage.watch.expects(UNAUTHORIZED)
    page = await stage.open("/")
    field = page.get_by_label("Key")
    await field.fill("wl_wrong")
    await field.press("Enter")
    await expect(page.get_by_role("alert").filter(has_text="key")).to_be_visible()
    await field.fill(key)
    await field.press("Enter")
    await ask(page, "Hi.")
    await ended(page)

    await page.reload()
    await expect(page.get_by_text("Hello.")).to_be_visible()
    other = await stage.open("/", context=page.context)
    await expect(other.get_by_label("Key")).to_be_visible()

    assert all(key not in url for url in stage.watch.requests)
    assert key not in caplog.text
    assert key not in str(await page.evaluate("() => JSON.stringify(localStorage)"))
    assert key not in await page.content()
