"""The list of chats, and two pages on one chat."""

import re

from playwright.async_api import Route, expect
from tests.console.axe import axe
from tests.console.chatting import Listening, answered, ask, message_box, turns
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, MODEL, PHONE, Stage, card, state_of

from windlass.testing import Gate, call

pytestmark = IN_ONE_BROWSER

LINES = """element =>
  Math.round(element.clientHeight / parseFloat(getComputedStyle(element).lineHeight))"""


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
    actions = chats.get_by_role("button", name="Actions for Apples")
    await actions.click()
    await chats.get_by_role("button", name="Delete Apples").click()
    await axe(page)
    await page.keyboard.press("Escape")
    await expect(actions).to_be_focused()
    await actions.click()
    await chats.get_by_role("button", name="Delete Apples").click()
    await chats.get_by_role("button", name="Delete", exact=True).click()
    await expect(chats.locator(".chats-title")).to_have_text(["Pears"])
    await expect(page).to_have_url(stage.origin + "/")
    await expect(tab.get_by_text("This chat does not exist")).to_be_visible()
    await expect(turns(page)).to_have_count(0)
    await page.reload()
    await expect(chats.locator(".chats-title")).to_have_text(["Pears"])


async def test_a_draft_is_restored_after_a_change_of_chats(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny."))
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather")
    await page.get_by_role("button", name="Stop", exact=True).wait_for()
    await message_box(page).fill("Half a sen")
    await page.get_by_role("link", name="New chat").click()
    await expect(message_box(page)).to_have_value("")
    await expect(page.get_by_role("img", name="running")).to_be_visible()
    await page.get_by_role("link", name="Weather").click()
    await expect(message_box(page)).to_have_value("Half a sen")
    rome.open()
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
    await page.get_by_role("button", name="Actions for Weather").click()
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


async def talked(stage: Stage, chat: str, text: str) -> None:
    """A chat that was begun without the page."""
    body = {"model": MODEL, "chat_id": chat, "messages": [{"role": "user", "content": text}]}
    await stage.post("/v1/chat/completions", body)


async def test_chats_are_found_by_title_and_content_with_ctrl_k_and_renamed(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening("A pomegranate is red.", "Yes."))
    long = "Thirty letters are not too long"
    for chat, text in (("one", "Fruit"), ("two", long)):
        await talked(stage, chat, text)
    page = await stage.open("/runs")
    await expect(page.get_by_role("table", name="Runs").locator("tbody tr")).to_have_count(2)
    await page.keyboard.press("Control+k")
    search = page.get_by_role("searchbox", name="Search chats")
    await expect(search).to_be_focused()
    titles = page.locator(".chats-title")
    await expect(page.get_by_role("heading", name="Today")).to_be_visible()
    await expect(titles).to_have_text([long, "Fruit"])
    await search.fill("POMEGRANATE")
    await expect(titles).to_have_text(["Fruit"])
    await expect(page.locator(".chats-match mark")).to_have_text("pomegranate")
    await axe(page)
    await search.fill("letters")
    await expect(titles).to_have_text([long])
    await search.fill("absent")
    await expect(page.get_by_text("No matching chats.")).to_be_visible()
    await search.press("Escape")
    await expect(titles).to_have_text([long, "Fruit"])

    await page.get_by_role("button", name="Actions for Fruit").click()
    await page.get_by_role("button", name="Rename Fruit").click()
    field = page.get_by_role("textbox", name="New title")
    await expect(field).to_be_focused()
    await axe(page)
    await field.fill("Red fruit")
    await field.press("Enter")
    await expect(titles).to_have_text([long, "Red fruit"])
    await page.get_by_role("link", name="Red fruit").click()
    await expect(page.get_by_role("heading", name="Red fruit")).to_be_visible()
    await answered(page, 1)
    await page.get_by_role("button", name="Actions for Red fruit").click()
    await page.get_by_role("button", name="Rename Red fruit").click()
    await field.fill("Ripe fruit")
    await field.press("Enter")
    await expect(page.get_by_role("heading", name="Ripe fruit")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="Ripe fruit")).to_be_visible()


async def test_a_title_of_twenty_five_letters_is_whole_in_the_list(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    await talked(stage, "one", "Twenty-five letters here.")
    page = await stage.open("/")
    title = page.locator(".chats-title")
    await expect(title).to_have_text("Twenty-five letters here.")
    assert await title.evaluate("title => title.scrollWidth <= title.clientWidth")


async def test_a_long_title_has_two_lines_in_the_list_and_above_the_chat(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening("Yes."))
    long = "How do I get from the station to the old harbour on foot?"
    await talked(stage, "one", long)
    page = await stage.open("/chats/one", viewport=PHONE)
    heading = page.get_by_role("heading", name=long)
    await expect(heading).to_be_visible()
    assert await heading.evaluate(LINES) == 2
    await expect(page.get_by_text("Enter to send")).to_be_hidden()  # there is no room for it
    await page.get_by_role("button", name="Chats", exact=True).click()
    title = page.locator(".chats-title")
    assert await title.evaluate(LINES) == 2
    assert await title.evaluate("title => title.scrollHeight <= title.clientHeight + 1")


async def test_the_search_stays_above_a_long_list_of_chats(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    for number in range(20):
        await talked(stage, f"chat{number}", f"Question {number}, which has a title of two lines")
    page = await stage.open("/")
    last = page.get_by_role("link", name="Question 0,")
    await last.scroll_into_view_if_needed()
    await expect(last).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("searchbox", name="Search chats")).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("link", name="New chat")).to_be_in_viewport(ratio=1)
    await axe(page)


async def test_a_message_is_queued_while_a_run_is_active_and_sent_after_it(
    stage_of: StageOf,
) -> None:
    model = Listening(call("get_weather", city="Rome"), "Sunny.", "You are welcome.")
    stage = await stage_of(model)
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await rome.reached.wait()
    for text in ("Thanks!", "Never mind."):
        await message_box(page).fill(text)
        await page.get_by_role("button", name="Queue").click()
    queued = page.get_by_role("list", name="Queued messages").get_by_role("listitem")
    await expect(queued).to_have_count(2)
    await expect(message_box(page)).to_have_value("")
    await axe(page)
    await queued.last.get_by_role("button", name="Remove").click()
    rome.open()
    await answered(page, 2)
    await expect(queued).to_have_count(0)
    assert model.conversation[-1] == ("user", "Thanks!")


async def test_older_chats_are_shown_with_the_focus_on_the_first_of_them(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening("Yes."))
    await talked(stage, "one", "Hello")

    async def many(route: Route) -> None:
        listed = await (await route.fetch()).json()
        [chat] = listed["data"]
        chats = [{**chat, "id": f"c{number}", "title": f"Chat {number}."} for number in range(130)]
        await route.fulfill(json={**listed, "data": chats})

    page = await stage.open("/tools")
    await page.route("**/v1/chats", many)
    await page.get_by_role("link", name="Chat", exact=True).click()
    await expect(page.locator(".chats-entry")).to_have_count(100)
    await page.get_by_role("button", name="Show older chats").press("Enter")
    await expect(page.locator(".chats-entry")).to_have_count(130)
    await expect(page.get_by_role("link", name="Chat 100.")).to_be_focused()


async def test_a_queued_message_is_removed_while_another_one_is_sent(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny.", "Yes."))
    rome, sent = stage.tools.hold("Rome"), Gate()
    page = await stage.open("/")
    await ask(page, "Weather?")
    await rome.reached.wait()
    for text in ("One", "Two", "Three"):
        await message_box(page).fill(text)
        await page.get_by_role("button", name="Queue").click()

    async def held(route: Route) -> None:
        await sent.passed()
        await route.continue_()

    await page.route("**/v1/runs", held)
    rome.open()
    await sent.reached.wait()
    queued = page.get_by_role("list", name="Queued messages").get_by_role("listitem")
    await queued.last.get_by_role("button", name="Remove").click()
    sent.open()
    await answered(page, 3)
    await expect(queued).to_have_count(0)
    await expect(page.locator(".asked-text")).to_have_text(["Weather?", "One", "Two"])


async def test_escape_in_the_search_leaves_it_and_stops_no_run(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "Sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await rome.reached.wait()
    await expect(page).to_have_url(re.compile("/chats/"))
    search = page.get_by_role("searchbox", name="Search chats")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("wea")  # at once: no letter is lost
    await expect(search).to_be_focused()
    await expect(search).to_have_value("wea")
    await page.keyboard.press("Escape")
    await expect(search).to_have_value("")
    await page.keyboard.press("Escape")
    await expect(message_box(page)).to_be_focused()
    rome.open()
    await answered(page, 1)
    await expect(page.locator(".run")).to_have_attribute("data-reason", "answer")


async def test_a_stop_gives_queued_messages_back(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome"), "Sunny."))
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await rome.reached.wait()
    await message_box(page).fill("Thanks!")
    await message_box(page).press("Enter")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await answered(page, 1)
    await expect(message_box(page)).to_have_value("Thanks!")
    rome.open()


async def test_keys_work_everywhere_and_the_help_sheet_lists_them(stage_of: StageOf) -> None:
    stage = await stage_of(Listening("Yes."))
    page = await stage.open("/tools")
    await expect(page.get_by_role("link", name="pay")).to_be_visible()
    await page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Help")
    await expect(sheet.get_by_text("Search chats")).to_be_visible()
    await axe(page)
    await page.keyboard.press("Escape")
    await expect(sheet).to_have_count(0)
    await page.get_by_role("link", name="Help").click()
    await sheet.get_by_role("button", name="Close help").click()
    await page.keyboard.press("/")
    await expect(message_box(page)).to_be_focused()
    await page.keyboard.press("?")
    await expect(message_box(page)).to_have_value("?")
    await ask(page, "Hello")
    await answered(page, 1)
    await page.keyboard.press("Control+Shift+O")
    await expect(page).to_have_url(f"{stage.origin}/")
    await expect(turns(page)).to_have_count(0)
    await expect(message_box(page)).to_be_focused()
