"""A browser has six connections for all tabs of a gateway: a hidden tab uses none."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, card, ended, state_of

from windlass.testing import call

pytestmark = IN_ONE_BROWSER

SEE = """(seen) => {
  Object.defineProperty(document, "hidden", { get: () => !seen, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
CONNECTIONS = 6
HIDDEN_INTERVAL = 10_001
"""Milliseconds after which a hidden page asks for new events."""
SILENCE = 61_000
"""Milliseconds after which a page closes an idle connection."""


def closed(page: Page) -> Any:
    """`async with closed(page):` waits until the page has closed its connection to a run."""
    return page.expect_event("requestfailed", lambda request: "/events?" in request.url)


@pytest.mark.whole("the next test: a tab that is hidden closes its connection, and opens it again")
async def test_hidden_tabs_leave_the_connections_to_the_visible_one(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    rome = stage.tools.hold("Rome")
    run_id = await stage.start()
    context = await stage.context()
    unseen: list[Page] = []
    for _ in range(CONNECTIONS):
        page = await stage.open(f"/runs/{run_id}", context=context)
        await state_of(card(page, "get_weather"), "running")
        async with closed(page):
            await page.evaluate(SEE, False)
        unseen.append(page)
    seen = await stage.open(f"/runs/{run_id}", context=context)
    await state_of(card(seen, "get_weather"), "running")
    rome.open()
    await ended(seen)

    page = unseen[0]
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    await page.evaluate(SEE, True)
    await ended(page)
    await expect(page.get_by_text("It is sunny.")).to_have_count(1)


async def test_the_title_of_a_hidden_tab_shows_that_a_call_waits(stage_of: StageOf) -> None:
    steps = [call("get_weather", city="Rome"), call("pay", amount=5), "It is paid."]
    stage = await stage_of(steps)
    rome = stage.tools.hold("Rome")
    run_id = await stage.start()
    context = await stage.context()
    await context.clock.install()
    page = await stage.open(f"/runs/{run_id}", context=context)
    await state_of(card(page, "get_weather"), "running")
    async with closed(page):
        await page.evaluate(SEE, False)
    seen = await stage.open(f"/runs/{run_id}")
    rome.open()
    await state_of(card(seen, "pay"), "approval-requested")
    await expect(page).not_to_have_title(re.compile("Approval needed"))
    await page.clock.fast_forward(HIDDEN_INTERVAL)
    await expect(page).to_have_title(re.compile(r"^\(1\) Approval needed"))
    await card(seen, "pay").get_by_role("button", name="Approve").click()
    await ended(seen)
    await page.evaluate(SEE, True)
    await ended(page)
    await expect(page).not_to_have_title(re.compile("Approval needed"))


async def test_a_page_that_is_left_gives_its_connection_back(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    places = page.get_by_role("navigation", name="Pages")
    for place in ("Tools", "Chat"):
        await state_of(card(page, "get_weather"), "running")
        async with closed(page):
            await places.get_by_role("link", name=place).click()
        await page.go_back()
    rome.open()
    await ended(page)


async def test_a_silent_connection_is_replaced(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    rome = stage.tools.hold("Rome")
    context = await stage.context()
    await context.clock.install()
    page = await stage.open(f"/runs/{await stage.start()}", context=context)
    await state_of(card(page, "get_weather"), "running")
    async with page.expect_request("**/events?after=*"), closed(page):
        await page.clock.fast_forward(SILENCE)
        await page.clock.fast_forward(SILENCE)
    rome.open()
    await ended(page)
    await expect(page.get_by_text("It is sunny.")).to_have_count(1)
