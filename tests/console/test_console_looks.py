"""Accessibility: every page and every state of a call, light, dark and on a phone."""

from typing import Any, Literal

from playwright.async_api import Page, ViewportSize, expect
from tests.console.axe import axe
from tests.console.conftest import StageOf
from tests.console.stage import (
    DESK,
    IN_ONE_BROWSER,
    PHONE,
    SharedContexts,
    Stage,
    ask,
    card,
    ended,
    state_of,
)
from tests.support.browsing import HEADLESS, LEAN

from windlass.testing import Gate, call, calls, say, slow, think

pytestmark = IN_ONE_BROWSER

PHONES: dict[str, Any] = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
NARROW: ViewportSize = {"width": 320, "height": 568}
LOW: ViewportSize = {"width": 320, "height": 200}
"""A window of 1280 by 800 at 400 %."""
HYBRID = [*LEAN, "--blink-settings=primaryHoverType=1,availableHoverTypes=3"]
"""The first pointer is a finger, and there is a mouse too."""
BACKGROUND = "element => getComputedStyle(element).backgroundColor"
NEXT_PICTURE = """() =>
  new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"""
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
THEMES: dict[Literal["light", "dark"], str] = {"light": LIGHT, "dark": DARK}
BUSY = calls(
    call("copy_files", count=4),
    call("send_mail", to="Ann"),
    call("pay", amount=5),
    call("pay", amount=6),
    call("divide", dividend=1, divisor=0),
    text="Let me do **all** of that.",
    thoughts="There is a lot to do.",
)
MIXED = think("Hm.", calls(call("get_weather", city="Rome"), call("divide", dividend=1, divisor=0)))
QUESTION = "A question " + "that is quite long " * 20 + "x" * 200
ANSWER = (
    "# It is done\n\nAll of it:\n\n- [x] files\n- [ ] mail\n\n| tool | result |\n|---|---|\n"
    "| divide | *nothing* |\n\n> Almost.\n\n```python\nprint('a line of code that is quite long,"
    " so that it has to be scrolled or wrapped on a phone')\n```\n\nSee [more](https://example.org)."
)
MEASURE = """() => {
  const wide = (element) => element.scrollWidth > element.clientWidth + 1;
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const pages = [document.documentElement, document.body, document.querySelector("main")];
  return [...pages, ...document.querySelectorAll(".talk, .page, .run, .card, .composer")]
    .filter((element) => element && wide(element) && (pages.includes(element) || !scrolls(element)))
    .map((element) => `${element.tagName}.${element.className} ${element.scrollWidth}`);
}"""


async def is_for_everybody(page: Page) -> None:
    """The page has no barriers, in both themes."""
    await axe(page, but="color-contrast")
    for scheme, colour in THEMES.items():
        await page.emulate_media(color_scheme=scheme)
        await has_paper(page, colour)
        await has_contrast(page)


async def has_contrast(page: Page) -> None:
    """Chromium changes `light-dark()` colours of some elements a few pictures later than others."""
    for _ in range(60):
        try:
            return await axe(page, only="color-contrast")
        except AssertionError:
            await page.evaluate(NEXT_PICTURE)
    return await axe(page, only="color-contrast")


async def has_paper(page: Page, colour: str) -> None:
    await expect(page.locator("html")).to_have_css("background-color", colour)
    await page.evaluate(NEXT_PICTURE)


async def fits(page: Page) -> None:
    """Nothing has to be scrolled sideways to be read."""
    assert await page.evaluate(MEASURE) == []


async def busy_stage(stage_of: StageOf) -> tuple[Stage, Gate]:
    """Two calls wait for approval, one tool runs, and others wait for their turn."""
    writing = slow(calls(call("send_mail", to="Bob", subject="What was done")), after=2)
    stage = await stage_of([BUSY, writing, say(ANSWER)], max_parallel=1)
    return stage, stage.tools.hold("file 3")


async def test_every_state_of_a_call_is_shown_to_everybody(stage_of: StageOf) -> None:
    stage, files = await busy_stage(stage_of)
    page = await stage.open("/")
    await ask(page, "Do it all.")
    pays = card(page, "pay")
    await state_of(card(page, "copy_files"), "running")
    await expect(card(page, "copy_files").get_by_role("progressbar")).to_have_attribute(
        "value", "0.5"
    )
    await state_of(card(page, "send_mail"), "input-available")
    for number in (0, 1):
        await state_of(pays.nth(number), "approval-requested")
    await is_for_everybody(page)

    await pays.nth(0).get_by_role("button", name="Approve").first.click()
    await pays.nth(1).get_by_role("button", name="Deny").click()
    await pays.nth(1).get_by_role("button", name="Deny").click()
    await state_of(pays.nth(1), "denied")
    files.open()
    await state_of(card(page, "copy_files"), "output-available")
    await state_of(pays.nth(0), "output-available")
    await state_of(card(page, "divide"), "output-error")
    writing = card(page, "send_mail").last
    await state_of(writing, "input-streaming")
    await is_for_everybody(page)

    await page.keyboard.press("Escape")
    await ended(page, "stopped")
    await state_of(writing, "cancelled")
    await is_for_everybody(page)


async def test_the_chat_is_for_everybody_and_fits_on_a_phone(stage_of: StageOf) -> None:
    stage = await stage_of([MIXED, say(ANSWER)])
    page = await stage.open("/", **PHONES)
    await fits(page)
    await is_for_everybody(page)
    for panel in ("tools", "settings"):
        await page.locator(f"[data-panel={panel}]").tap()
        await fits(page)
        await axe(page)
    await ask(page, QUESTION)
    await ended(page)
    await expect(page.locator("pre").first).to_be_visible()
    await fits(page)
    await is_for_everybody(page)


async def test_every_other_page_is_for_everybody_and_fits_on_a_phone(stage_of: StageOf) -> None:
    stage = await stage_of([MIXED, say(ANSWER)])
    run_id = await stage.start(QUESTION)
    page = await stage.open(f"/runs/{run_id}", **PHONES)
    await ended(page)
    for path, shown in {
        f"/runs/{run_id}": "It is done",
        "/runs": "A question",
        "/tools": "pay",
        "/tools/divide": "1 call, 1 failed",
        "/replay": "Replay",
    }.items():
        await stage.goto(page, path)
        await expect(page.get_by_role("main").get_by_text(shown).first).to_be_visible()
        await fits(page)
        await is_for_everybody(page)


async def test_every_page_fits_on_the_narrowest_phone_and_at_large_zoom(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "Paid."], examples=("Pay.", "x" * 100))
    page = await stage.open("/", viewport=NARROW)
    for path, shown in {
        "/runs": ".runs-filters",
        "/tools": ".tools-entry",
        "/tools/divide": ".tools-call",
        "/replay": ".replay-file",
        "/": ".examples button",
    }.items():
        await stage.goto(page, path)
        await expect(page.locator(shown).first).to_be_visible()
        await fits(page)
    await page.get_by_role("button", name="Pay.").click()
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await fits(page)
    await is_for_everybody(page)
    await page.set_viewport_size(LOW)
    height = await page.locator(".talk").evaluate("talk => talk.clientHeight")
    assert height > 80, "the message box leaves no room for the messages"


async def test_without_motion_nothing_blinks(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "Sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await state_of(card(page, "get_weather"), "running")
    assert await page.evaluate("() => document.getAnimations().length") == 0
    await page.emulate_media(reduced_motion="no-preference")
    assert await page.evaluate("() => document.getAnimations().length") > 0
    await page.emulate_media(reduced_motion="reduce")
    rome.open()
    await ended(page)


async def test_a_touch_screen_shows_no_keyboard_shortcuts_and_no_small_fields(
    stage_of: StageOf,
) -> None:
    stage = await stage_of("Hello.")
    desk: dict[str, Any] = {"viewport": DESK}
    for options, shown in ((PHONES, False), (desk, True)):
        page = await stage.open("/", **options)
        await expect(page.get_by_text("Enter to send")).to_be_visible(visible=shown)
        search = page.get_by_role("searchbox", name="Search chats", include_hidden=True)
        words = "Search chats (Ctrl+K)" if shown else "Search chats"
        await expect(search).to_have_attribute("placeholder", words)
        await page.get_by_role("link", name="Help").first.click()
        sheet = page.get_by_role("dialog", name="Help")
        await expect(sheet.get_by_text("Ask a question.")).to_be_visible()
        await expect(sheet.get_by_text("Keyboard shortcuts")).to_be_visible(visible=shown)
        # A phone zooms in on a field with a text below 16 px.
        await expect(search).to_have_css("font-size", "14px" if shown else "16px")


async def test_a_touch_screen_with_a_mouse_shows_the_shortcuts(
    stage_of: StageOf, browser: SharedContexts
) -> None:
    stage = await stage_of("Hello.")
    hybrid = await browser.browser.browser_type.launch(executable_path=HEADLESS, args=HYBRID)
    page = await hybrid.new_page()
    await stage.goto(page, "/")
    assert await page.evaluate("() => matchMedia('(hover: none)').matches")
    search = page.get_by_role("searchbox", name="Search chats")
    await expect(search).to_have_attribute("placeholder", "Search chats (Ctrl+K)")
    await expect(page.get_by_text("Enter to send")).to_be_visible()
    await page.get_by_role("link", name="Help").first.click()
    await expect(page.get_by_text("Keyboard shortcuts")).to_be_visible()
    await hybrid.close()


async def test_enter_begins_a_new_line_on_a_touch_screen(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    page = await stage.open("/", **PHONES)
    message = page.get_by_role("textbox", name="Message", exact=True)
    await message.tap()
    await page.keyboard.type("One")
    await page.keyboard.press("Enter")
    await page.keyboard.type("Two")
    await expect(message).to_have_value("One\nTwo")
    await page.get_by_role("button", name="Send", exact=True).tap()
    await ended(page)
    await expect(page.locator(".asked-text")).to_have_text("One\nTwo")


async def test_colours_that_mean_something_stay_in_a_high_contrast_theme(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "Sunny."])
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    for mark in (page.locator(".bar").first, page.locator(".card-mark")):
        colour = await mark.evaluate(BACKGROUND)
        await page.emulate_media(forced_colors="active")
        assert await mark.evaluate(BACKGROUND) == colour
        await page.emulate_media(forced_colors="none")


async def test_a_phone_is_enough_to_approve_and_to_go_to_another_chat(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."])
    page = await stage.open("/", **PHONES)
    await page.get_by_role("textbox", name="Message", exact=True).fill("Pay.")
    await page.get_by_role("button", name="Send", exact=True).tap()
    await card(page, "pay").get_by_role("button", name="Approve").first.tap()
    await ended(page)
    await page.get_by_role("button", name="Chats", exact=True).tap()
    await expect(page.get_by_role("link", name="Pay.")).to_be_visible()
    await fits(page)
    await axe(page, but="page-has-heading-one")  # what is behind the drawer is out of reach
    await page.get_by_role("link", name="New chat").tap()
    await expect(page.get_by_text("It is paid.")).to_have_count(0)
    await expect(page).to_have_url(f"{stage.origin}/")


async def test_colours_are_the_systems_until_the_user_chooses(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    page = await stage.open("/", color_scheme="dark")
    picker = page.get_by_label("Theme")

    await expect(picker).to_have_value("system")
    await has_paper(page, DARK)
    await page.emulate_media(color_scheme="light")
    await has_paper(page, LIGHT)
    await picker.select_option("Dark")
    await has_paper(page, DARK)
    await page.reload()
    await expect(picker).to_have_value("dark")
    await has_paper(page, DARK)
    await picker.select_option("System")
    await has_paper(page, LIGHT)
