"""The list of chats, and two pages on one chat."""

from playwright.async_api import expect
from tests.console.axe import axe
from tests.console.chatting import Listening, answered, ask, message_box, turns
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, PHONE, card, state_of

from windlass.testing import call

pytestmark = IN_ONE_BROWSER


async def test_chats_are_listed_opened_and_deleted_after_a_question(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    stage.watch.expects("404")
    page = await stage.open("/")
    chats = page.get_by_role("navigation", name="Chats")
    for title in ("Apples", "Pears"):
        await chats.get_by_role("link", name="New chat").click()
        await ask(page, title)
        await answered(page, 1)
    await expect(chats.locator(".chats-title")).to_have_text(["Pears", "Apples"])

    await chats.get_by_role("link", name="Apples").click()
    await expect(turns(page)).to_contain_text("Apples")
    tab = await stage.open(page.url, context=page.context)
    await answered(tab, 1)
    await expect(page.get_by_role("heading", name="Apples")).to_be_visible()
    remove = chats.get_by_role("button", name="Delete Apples")
    await remove.click()
    await axe(page)
    await page.keyboard.press("Escape")
    await expect(remove).to_be_focused()
    await remove.click()
    await chats.get_by_role("button", name="Delete", exact=True).click()
    await expect(chats.locator(".chats-title")).to_have_text(["Pears"])
    await expect(page).to_have_url(stage.origin + "/")
    await expect(tab.get_by_text("This chat does not exist")).to_be_visible()
    await expect(turns(page)).to_have_count(0)
    await page.reload()
    await expect(chats.locator(".chats-title")).to_have_text(["Pears"])


async def test_what_was_written_is_there_again_when_one_comes_back(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny."))
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather")
    await page.get_by_role("button", name="Stop", exact=True).wait_for()
    await message_box(page).fill("Half a sen")
    await expect(page.get_by_text("Wait for the answer or stop the run.")).to_be_visible()
    await message_box(page).press("Enter")
    await page.get_by_role("link", name="New chat").click()
    await expect(message_box(page)).to_have_value("")
    await page.get_by_role("link", name="Weather running").click()
    await expect(message_box(page)).to_have_value("Half a sen")
    rome.open()
    await answered(page, 1)
    await expect(turns(page)).to_contain_text("Sunny.")


async def test_a_chat_with_an_active_run_cannot_be_deleted_and_reports_why(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny."))
    stage.watch.expects("409")
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather")
    await expect(page.locator(".chats-entry[data-status=running]")).to_be_visible()
    await page.get_by_role("button", name="Delete Weather").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("alert").filter(has_text="still active")).to_be_visible()
    rome.open()
    await answered(page, 1)
    await expect(page.locator(".chats-entry[data-status=ended]")).to_be_visible()


async def test_a_run_that_another_tab_begins_is_followed_here(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes.", call("get_weather", city="Rome"), "Sunny."))
    rome = stage.tools.hold("Rome")
    one = await stage.open("/")
    await ask(one, "Hello")
    await answered(one, 1)
    tab = await stage.open(one.url, context=one.context)
    elsewhere = await stage.open(one.url)
    for page in (tab, elsewhere):
        await answered(page, 1)

    await ask(one, "Weather?")
    for page in (one, tab, elsewhere):
        await state_of(card(page, "get_weather"), "running")
    await tab.get_by_role("button", name="Stop", exact=True).click()
    for page in (one, tab, elsewhere):
        await state_of(card(page, "get_weather"), "cancelled")
        await answered(page, 2)
    rome.open()


async def test_on_a_phone_the_list_is_a_drawer(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    await stage.post(
        "/v1/chat/completions",
        {"model": "scripted", "chat_id": "a", "messages": [{"role": "user", "content": "Apples"}]},
    )
    page = await stage.open("/", viewport=PHONE)
    chats = page.get_by_role("navigation", name="Chats")
    await expect(message_box(page)).to_be_visible()
    await expect(chats).to_be_hidden()
    opener = page.get_by_role("button", name="Chats", exact=True)
    await opener.click()
    await expect(chats.get_by_role("link", name="New chat")).to_be_focused()
    await axe(page)
    await page.keyboard.press("Escape")
    await expect(chats).to_be_hidden()
    await expect(opener).to_be_focused()

    await opener.click()
    await page.mouse.click(PHONE["width"] - 10, 400)
    await expect(chats).to_be_hidden()
    await opener.click()
    await chats.get_by_role("link", name="Apples").click()
    await answered(page, 1)
    await expect(chats).to_be_hidden()
    assert await page.locator(".chat").evaluate("chat => chat.scrollWidth <= chat.clientWidth")
