"""The chat: messages stay in place, and can be edited and sent again."""

import re

from playwright.async_api import Route, expect
from tests.console.axe import axe
from tests.console.chatting import Listening, answered, ask, message_box, turns
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, MODEL, card, state_of

from windlass.testing import Gate, call, refuse, say, slow

pytestmark = IN_ONE_BROWSER


async def test_a_chat_has_an_address_that_shows_all_of_it_again(stage_of: StageOf) -> None:
    model = Listening("It is **sunny**.", "Warm, too.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await ask(page, "Weather?")
    await page.wait_for_url(re.compile(r"/chats/[0-9a-f]{32}$"))
    await answered(page, 1)
    await ask(page, "Warm?")
    await answered(page, 2)
    assert model.conversation == [
        ("user", "Weather?"),
        ("assistant", "It is **sunny**."),
        ("user", "Warm?"),
    ]

    again = await stage.open(page.url)
    await answered(again, 2)
    await expect(turns(again).nth(0)).to_contain_text("Weather?")
    await expect(turns(again).nth(0).locator("strong", has_text="sunny")).to_be_visible()
    await expect(turns(again).nth(1)).to_contain_text("Warm, too.")
    await expect(again).to_have_title("Weather? · Windlass")


async def test_a_message_can_be_sent_as_soon_as_the_page_is_shown(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    context = await stage.context()
    held: list[Route] = []

    async def only_the_first(route: Route) -> None:
        held.append(route)
        if len(held) == 1:
            await route.continue_()

    await context.route("**/v1/models", only_the_first)
    page = await stage.open("/", context=context)
    await message_box(page).fill("Hi.")
    await message_box(page).press("Enter")
    await answered(page, 1)
    for route in held[1:]:
        await route.continue_()


async def test_shift_and_enter_makes_a_new_line_and_enter_sends(stage_of: StageOf) -> None:
    model = Listening("Yes.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await message_box(page).press_sequentially("One")
    await message_box(page).press("Shift+Enter")
    await message_box(page).press_sequentially("Two")
    await message_box(page).press("Enter")
    await answered(page, 1)
    assert model.conversation == [("user", "One\nTwo")]
    await expect(message_box(page)).to_have_value("")
    await expect(message_box(page)).to_be_focused()


async def test_an_edited_message_takes_the_place_of_all_that_came_after(stage_of: StageOf) -> None:
    model = Listening("One.", "Two.", "Three.", "Other.")
    stage = await stage_of(model)
    page = await stage.open("/")
    for number, text in enumerate(["first", "second", "third"], 1):
        await ask(page, text)
        await answered(page, number)

    await turns(page).nth(1).get_by_role("button", name="Edit").click()
    edited = page.get_by_role("textbox", name="Edit message")
    await expect(edited).to_have_value("second")
    await axe(page)
    await edited.press("Escape")
    await expect(turns(page).nth(1).get_by_role("button", name="Edit")).to_be_focused()

    await turns(page).nth(1).get_by_role("button", name="Edit").click()
    await edited.fill("another")
    await edited.press("Enter")
    await expect(turns(page).nth(1)).to_contain_text("Other.")
    await answered(page, 2)
    assert model.conversation == [("user", "first"), ("assistant", "One."), ("user", "another")]
    await page.reload()
    await answered(page, 2)
    await expect(turns(page).nth(1)).to_contain_text("another")


async def test_a_failed_run_reports_why_and_can_be_tried_again(stage_of: StageOf) -> None:
    model = Listening(refuse(400, "The model is confused."), "Now it works.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await ask(page, "Hello")
    await expect(turns(page)).to_contain_text("The model is confused.")
    await turns(page).get_by_role("button", name="Retry").click()
    await expect(turns(page)).to_contain_text("Now it works.")
    await answered(page, 1)
    assert model.conversation == [("user", "Hello")]


async def test_a_refused_message_stays_in_its_box_with_the_reason(stage_of: StageOf) -> None:
    stage = await stage_of("Never.")
    stage.watch.expects("429")
    page = await stage.open("/")
    error = {"message": "Too many runs. Wait.", "type": "rate_limit_error", "code": "busy"}
    await page.route("**/v1/runs", lambda route: route.fulfill(status=429, json={"error": error}))
    await ask(page, "Hello")
    await expect(page.get_by_role("alert").filter(has_text="Too many runs. Wait.")).to_be_visible()
    await expect(message_box(page)).to_have_value("Hello")
    await expect(page).to_have_url(stage.origin + "/")


async def test_a_run_is_stopped_by_its_button_and_by_escape(stage_of: StageOf) -> None:
    stage = await stage_of(Listening(call("get_weather", city="Rome")))
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    stop = page.get_by_role("button", name="Stop", exact=True)

    await ask(page, "Weather?")
    await rome.reached.wait()
    await stop.click()
    await state_of(card(page, "get_weather"), "cancelled")
    await answered(page, 1)
    await expect(message_box(page)).to_be_focused()

    await ask(page, "Weather?")
    await expect(stop).to_be_visible()
    await page.get_by_role("button", name="Settings").click()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("textbox", name="System prompt")).to_have_count(0)
    await expect(stop).to_be_visible()
    await page.get_by_role("link", name="Help").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Timeline").last.click()
    await message_box(page).focus()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("complementary")).to_have_count(0)
    await expect(stop).to_be_visible()
    await page.keyboard.press("Escape")
    await answered(page, 2)
    await state_of(card(page, "get_weather").nth(1), "cancelled")


async def test_the_result_of_a_manual_call_can_be_sent_to_the_model(stage_of: StageOf) -> None:
    model = Listening(call("get_weather", city="Rome"), "Sunny.", "Still sunny.")
    stage = await stage_of(model)
    page = await stage.open("/")
    await ask(page, "Weather?")
    await answered(page, 1)
    await page.locator(".toolfold > summary").click()
    await card(page, "get_weather").get_by_role("button", name="Run again").click()
    await page.get_by_role("button", name="Add to message").click()
    await expect(message_box(page)).to_be_focused()
    await message_box(page).press("Enter")
    await answered(page, 2)
    assert "get_weather" in model.conversation[-1][1]


async def test_boundaries_are_announced_and_text_is_not(stage_of: StageOf) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    said = page.locator("[data-announcer]")
    await ask(page, "Weather?")
    await expect(said).to_contain_text("get_weather is running.")
    rome.open()
    await expect(said).to_contain_text("The answer is complete.")
    await expect(said).not_to_contain_text("sunny")
    assert await page.locator("[aria-live] .turn, [role=log]").count() == 0


async def test_a_list_that_grows_stays_at_its_end_unless_one_has_scrolled_up(
    stage_of: StageOf,
) -> None:
    gate, rest = Gate(), Gate()
    lines = "\n\n".join(f"Line {number}." for number in range(60))
    stage = await stage_of(Listening(slow(say(lines), rest, after=200), slow(say(lines), gate)))
    rest.open()
    page = await stage.open("/")
    await ask(page, "Tell me much.")
    await answered(page, 1)
    await expect(page.get_by_text("Line 59.")).to_be_in_viewport()

    await ask(page, "And more.")
    await expect(turns(page).nth(1)).to_be_in_viewport()
    await page.locator(".talk").hover()
    await page.mouse.wheel(0, -600)
    to_end = page.get_by_role("button", name="Scroll to end")
    await expect(to_end).to_be_visible()
    above = await page.locator(".talk").evaluate("talk => talk.scrollTop")
    gate.open()
    await answered(page, 2)
    assert await page.locator(".talk").evaluate("talk => talk.scrollTop") == above
    await to_end.click()
    await expect(page.get_by_text("Line 59.").nth(1)).to_be_in_viewport()
    await expect(to_end).to_have_count(0)


async def test_a_long_chat_loads_what_is_looked_at(stage_of: StageOf) -> None:
    gate = Gate()

    async def late(route: Route) -> None:
        await gate.passed()
        await route.continue_()

    stage = await stage_of(Listening("\n\n".join(["A long answer."] * 30)))
    for number in range(8):
        said = [{"role": "user", "content": f"Question {number}"}]
        await stage.post(
            "/v1/chat/completions", {"model": MODEL, "chat_id": "long", "messages": said}
        )
    page = await stage.open("/runs")
    await page.route("**/events?*", late)
    await stage.goto(page, "/chats/long")
    await expect(turns(page)).to_have_count(8)
    gate.open()
    await expect(turns(page).nth(7).get_by_role("button", name="Retry")).to_be_in_viewport()
    first = turns(page).nth(0)
    await expect(first).to_have_text("…")
    await page.locator(".talk").evaluate("talk => talk.scrollTo({ top: 0 })")
    await expect(first.get_by_text("Question 0")).to_be_in_viewport()


async def test_a_missing_chat_is_reported(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    stage.watch.expects("404")
    page = await stage.open("/chats/nowhere")
    await expect(page.get_by_text("This chat does not exist")).to_be_visible()
    await expect(message_box(page)).to_have_count(0)
    await page.get_by_role("link", name="Start a new chat.").click()
    await expect(message_box(page)).to_be_visible()


async def test_a_gateway_without_storage_still_chats(stage_of: StageOf) -> None:
    model = Listening(call("get_weather", city="Rome", id="c1"), "Sunny.", "Warm.", "New.")
    stage = await stage_of(model, kept=False)
    stage.watch.expects("404")
    page = await stage.open("/")
    await ask(page, "Weather?")
    await answered(page, 1)
    await expect(page.get_by_text("Not saved")).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Weather?")
    await ask(page, "Warm?")
    await answered(page, 2)
    assert [said.role for said in model.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert model.messages[2].responses[0].name == "get_weather"

    await page.get_by_role("link", name="Runs", exact=True).click()
    await page.get_by_role("link", name="Chat", exact=True).click()
    await answered(page, 2)
    await turns(page).nth(1).get_by_role("button", name="Retry").click()
    await expect(turns(page).nth(1)).to_contain_text("New.")
    assert [text for _, text in model.conversation] == ["Weather?", "", "", "Sunny.", "Warm?"]
    await page.get_by_role("link", name="New chat").click()
    await expect(turns(page)).to_have_count(0)


async def test_a_run_that_the_gateway_no_longer_has_is_reported_and_can_be_asked_again(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening("Sunny."), kept=False)
    stage.watch.expects("404")
    page = await stage.open("/")

    async def forgotten(route: Route) -> None:
        other = route.request.url.replace("/runs/run_", "/runs/run_x")
        await route.fulfill(response=await route.fetch(url=other))

    await page.route("**/events*", forgotten)
    await ask(page, "Weather?")
    lost = page.get_by_text("The gateway does not have this run")
    await expect(lost).to_be_visible()
    await page.unroute("**/events*")
    await page.get_by_role("button", name="Retry").click()
    await answered(page, 1)
    await expect(lost).to_have_count(0)
