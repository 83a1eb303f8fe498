"""Keyboard focus is never lost: when an element disappears, the focus moves to one nearby."""

from playwright.async_api import Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, PHONE, ask, card, ended, state_of

from windlass.testing import call

pytestmark = IN_ONE_BROWSER

ROUNDS = 55


async def press(page: Page, name: str) -> None:
    """Presses a button by keyboard."""
    button = page.get_by_role("main").get_by_role("button", name=name, exact=True)
    await button.focus()
    await page.keyboard.press("Enter")


async def test_the_first_link_of_a_page_leads_past_the_frame(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/runs")
    await expect(page.get_by_role("searchbox", name="Search")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("main")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Replay an exported run")).to_be_focused()


async def test_to_delete_a_run_asks_first_and_the_focus_goes_there_and_back(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(["Hello."])
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    await press(page, "Delete")
    await expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Delete")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No runs yet.")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_focused()


async def test_a_tool_that_is_run_again_by_keyboard_leaves_the_focus_at_its_button(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."])
    page = await stage.open(f"/runs/{await stage.start()}")
    await state_of(card(page, "pay"), "approval-requested")
    await card(page, "pay").get_by_role("button", name="Approve", exact=True).click()
    await ended(page)
    again = page.get_by_role("button", name="Run again: pay")
    await again.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(again).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("pay, manual run")).to_be_visible()
    await expect(again).to_be_focused()


async def test_a_tool_that_is_called_by_keyboard_leaves_the_focus_at_its_button(
    stage_of: StageOf,
) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/send_mail")
    ann = stage.tools.hold("Ann")
    await page.get_by_role("textbox", name="to").fill("Ann")
    await press(page, "Call")
    await ann.reached.wait()
    await expect(page.get_by_role("button", name="Call")).to_be_disabled()
    await page.keyboard.press("Enter")
    ann.open()
    await expect(page.get_by_label("Result of the call")).to_be_visible()
    await expect(page.get_by_role("button", name="Call")).to_be_focused()
    assert stage.tools.ran == ["send_mail"]


async def test_a_button_that_goes_with_its_work_leaves_the_focus_to_what_is_next(
    stage_of: StageOf,
) -> None:
    steps = [call("quote", text=str(number)) for number in range(ROUNDS)]
    stage = await stage_of([*steps, "Done."], max_rounds=ROUNDS + 1)
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    cards = card(page, "quote")
    shown = await cards.count()
    assert shown < ROUNDS
    await press(page, f"Show {ROUNDS - shown} earlier rounds")
    await expect(cards).to_have_count(ROUNDS)
    where = "() => document.activeElement.closest('.round')?.dataset.round"
    assert await page.evaluate(where) is not None


async def test_a_drawer_that_is_open_when_the_window_is_made_wide_gives_the_chat_back(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(["Hello."])
    page = await stage.open("/", viewport=PHONE)
    await page.get_by_role("button", name="Chats").click()
    await expect(page.get_by_role("link", name="New chat")).to_be_focused()
    await page.set_viewport_size({"width": 1000, "height": 700})
    await ask(page, "Hi.")
    await ended(page)
