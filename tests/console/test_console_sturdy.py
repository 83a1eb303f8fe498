"""Unusual input: truncated addresses, damaged files, endless words, and the like."""

import json
import re

import pytest
from playwright.async_api import FilePayload, Page, Route, expect
from tests.console.chatting import message_box
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, PHONE, ask, card, ended, state_of

from windlass import ToolError, tool
from windlass.testing import call, calls

pytestmark = IN_ONE_BROWSER

LONG = 200_000
BLOCKED = """
for (const store of ["localStorage", "sessionStorage"]) {
  const get = () => { throw new DOMException("Access is denied.", "SecurityError") };
  Object.defineProperty(window, store, { get });
}"""
SLOW_FILES = """() => {
  const read = FileReader.prototype.readAsDataURL;
  FileReader.prototype.readAsDataURL = function (file) {
    window.finish = () => read.call(this, file);
  };
}"""
CLOCK_OFF = """(() => {
  const now = Date.now.bind(Date);
  Date.now = () => now() + %d;
})()"""
WIDTHS = "() => [document.querySelector('main').scrollWidth, innerWidth]"


@tool
def refuse_at_length() -> str:
    """Fails, and says a lot about it."""
    raise ToolError("No. " * (LONG // 4))


def unspaced(number: int) -> str:
    return f"https://example.org/{'a' * number}"


async def fits(page: Page) -> None:
    """The page is no wider than its window."""
    wide, window = await page.evaluate(WIDTHS)
    assert wide <= window


async def test_a_truncated_address_leads_to_a_page_that_reports_it(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/tools/%E0%A4")
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    await page.get_by_role("main").get_by_role("link", name="Chat").click()
    await expect(message_box(page)).to_be_visible()


async def test_a_damaged_export_is_called_damaged_and_the_next_one_is_shown(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("quote", text="a"), "Done."])
    stage.watch.expects("TypeError")
    run_id = await stage.start()
    page = await stage.open(f"/runs/{run_id}")
    await ended(page)
    whole = await page.evaluate(
        "(url) => fetch(url).then((file) => file.text())", f"/v1/runs/{run_id}/export"
    )
    await stage.goto(page, "/replay")

    async def give(text: str) -> None:
        file: FilePayload = {
            "name": "run.json",
            "mimeType": "application/json",
            "buffer": text.encode(),
        }
        await page.locator("input[type=file]").set_input_files(file)

    damaged = json.loads(whole)
    for event in damaged["events"]:
        if event["event"] == "run_started":
            event["messages"] = 7
    await give(json.dumps(damaged))
    await expect(page.get_by_text("damaged")).to_be_visible()
    await give(whole)
    await page.get_by_role("button", name="Skip to end").click()
    await ended(page)
    await expect(page.get_by_text("damaged")).to_have_count(0)


async def test_a_very_long_text_is_shown_in_part(stage_of: StageOf) -> None:
    words = "word " * (LONG // 5)
    stage = await stage_of([call("refuse_at_length"), "No."], more_tools=[refuse_at_length])
    page = await stage.open("/")
    await ask(page, words)
    await ended(page)
    await page.locator(".toolfold > summary").click()
    await expect(card(page, "refuse_at_length").get_by_text("No. No.")).to_be_visible()
    chat = page.url
    run_id = await page.locator(".turn").get_attribute("data-turn")
    for address in (chat, f"/runs/{run_id}"):
        await stage.goto(page, address)
        await ended(page)
        await expect(page.get_by_role("button", name="Show all")).to_be_visible()
        assert await page.evaluate("() => document.body.textContent.length") < LONG / 2


async def test_words_without_a_space_make_no_page_wider_than_a_phone(stage_of: StageOf) -> None:
    steps = calls(call("quote", text=unspaced(400)), call("unknown_" + "n" * 60))
    stage = await stage_of([steps, unspaced(300)])
    page = await stage.open("/", viewport=PHONE)
    await ask(page, unspaced(500))
    await ended(page)
    await fits(page)
    run_id = await page.locator(".turn").get_attribute("data-turn")
    await stage.goto(page, f"/runs/{run_id}")
    await ended(page)
    await fits(page)
    await stage.goto(page, "/runs")
    await page.get_by_text("Failures by tool").click()
    await expect(page.get_by_role("table", name="Failures by tool")).to_be_visible()
    await fits(page)


async def test_a_browser_without_storage_still_chats(stage_of: StageOf) -> None:
    stage = await stage_of(["Hello."])
    context = await stage.context()
    await context.add_init_script(BLOCKED)
    page = await stage.open("/", context=context)
    await page.get_by_label("Theme").select_option("dark")
    await ask(page, "Hi.")
    await ended(page)
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_text_typed_while_a_picture_is_read_stays(stage_of: StageOf) -> None:
    stage = await stage_of()
    page = await stage.open("/")
    await page.evaluate(SLOW_FILES)
    picture: FilePayload = {"name": "a.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}
    await page.get_by_label("Files", exact=True).set_input_files(picture)
    await message_box(page).fill("What is this?")
    await page.evaluate("() => window.finish()")
    await expect(page.get_by_role("img", name="Image 1")).to_be_visible()
    await expect(message_box(page)).to_have_value("What is this?")


async def test_text_typed_while_a_message_is_refused_follows_it(
    stage_of: StageOf,
) -> None:
    stage = await stage_of()
    stage.watch.expects("503")
    page = await stage.open("/")

    async def busy(route: Route) -> None:
        await message_box(page).fill("Second.")
        await route.fulfill(status=503, json={"error": {"message": "Too busy."}})

    await page.route("**/v1/runs", busy)
    await ask(page, "First.")
    await expect(page.get_by_text("Too busy.")).to_be_visible()
    await expect(message_box(page)).to_have_value("First.\n\nSecond.")


async def test_characters_that_change_the_direction_are_visible_in_an_approval(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("pay", amount=5, payee="\u202ennA"), "Paid."])
    page = await stage.open(f"/runs/{await stage.start()}")
    await state_of(card(page, "pay"), "approval-requested")
    await expect(card(page, "pay").locator(".fields")).to_contain_text(r'payee"\u202ennA"')


async def test_an_empty_answer_is_reported_as_empty(stage_of: StageOf) -> None:
    stage = await stage_of([""])
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    await expect(page.get_by_text("The model ended without an answer.")).to_be_visible()


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_browser_whose_clock_is_wrong_shows_the_time_that_has_passed(
    stage_of: StageOf, hours: int
) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    stage.tools.hold("Rome")
    context = await stage.context()
    await context.add_init_script(CLOCK_OFF % (hours * 3_600_000))
    page = await stage.open(f"/runs/{await stage.start()}", context=context)
    elapsed = card(page, "get_weather").locator(".elapsed")
    await expect(elapsed).to_have_text(re.compile(r"^[1-9]\d?\.\d s$"))
    await stage.goto(page, "/runs")
    await expect(page.get_by_role("cell", name=re.compile(r"^\d+\.\d s$"))).to_be_visible()
