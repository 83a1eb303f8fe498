"""The page with a keyboard and a screen reader: Tab reaches everything, and only changes are
read."""

from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, ask, card, ended, state_of

from windlass.testing import call, calls, say

pytestmark = IN_ONE_BROWSER

LISTEN = """() => {
  window.heard = [];
  const regions = "[aria-live], [role=alert], [role=status], [role=log]";
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const element = target.nodeType === Node.TEXT_NODE ? target.parentElement : target;
      const text = element?.closest(regions)?.textContent;
      if (text && window.heard.at(-1) !== text) window.heard.push(text);
    }
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
FOCUSABLE = """() => {
  const kinds = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  window.wanted = new Set([...document.querySelectorAll(kinds)].filter((element) =>
    element.checkVisibility({ visibilityProperty: true }) && !element.disabled
      && !element.closest("[inert]") && element.tabIndex >= 0));
  return window.wanted.size;
}"""
MARK = "() => { window.wanted.delete(document.activeElement) }"
LEFT = "() => [...window.wanted].map((element) => element.outerHTML.slice(0, 120))"
DONE = calls(call("get_weather", city="Rome"), call("divide", dividend=1, divisor=0))


async def is_reached_by_tab(page: Page) -> None:
    await page.evaluate("() => document.activeElement.blur()")
    # A date has four stops: month, day, year and calendar.
    dates = await page.locator("input[type=date]").count()
    for _ in range(await page.evaluate(FOCUSABLE) + 3 + 3 * dates):
        await page.keyboard.press("Tab")
        await page.evaluate(MARK)
    assert await page.evaluate(LEFT) == []


async def test_tab_reaches_all_that_can_be_pressed(stage_of: StageOf) -> None:
    stage = await stage_of([DONE, "It is **sunny**."])
    page = await stage.open("/")
    await ask(page, "Weather?")
    await ended(page)
    await is_reached_by_tab(page)
    for path, shown in {"/runs": "Weather?", "/tools/divide": "1 call, 1 failed"}.items():
        await stage.goto(page, path)
        await expect(page.get_by_role("main").get_by_text(shown).first).to_be_visible()
        await is_reached_by_tab(page)


async def test_the_first_tab_skips_to_the_content(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    page = await stage.open("/runs")
    await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()


async def test_a_listener_hears_boundaries_and_never_the_words_as_they_arrive(
    stage_of: StageOf,
) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    stage = await stage_of([call("pay", amount=5), say(words)])
    page = await stage.open("/")
    await page.evaluate(LISTEN)
    await ask(page, "Pay.")
    await state_of(card(page, "pay"), "approval-requested")
    await card(page, "pay").get_by_role("button", name="Approve").click()
    await ended(page)
    await expect(page.locator("[data-announcer]")).to_contain_text("The answer is complete.")
    heard: list[str] = await page.evaluate("() => window.heard")
    assert any("pay" in said for said in heard)
    assert not any("word1" in said for said in heard)
    assert 2 <= len(heard) <= 8, heard
    assert await page.locator("[aria-live] .run, [role=log] .run").count() == 0
