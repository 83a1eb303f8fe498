"""Cards of calls: what the tools do, while they do it."""

import re
from base64 import b64decode

from playwright.async_api import expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, card, ended, state_of

from windlass.content import FileData, InlineData
from windlass.testing import Turn, call, calls, raw_call, slow, think

pytestmark = IN_ONE_BROWSER

PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_call_is_seen_while_it_is_written_while_it_runs_and_when_it_is_done(
    stage_of: StageOf,
) -> None:
    written = slow(call("get_weather", city="Rome"), after=3)
    stage = await stage_of([written, "It is sunny."])
    rome = stage.tools.hold("Rome")
    page = await stage.open(f"/runs/{await stage.start()}")
    weather = card(page, "get_weather")
    await state_of(weather, "input-streaming")
    await expect(weather.locator("pre")).to_have_text(re.compile("^city: R"))

    assert written.gate is not None
    written.gate.open()
    await state_of(weather, "running")
    await expect(weather).to_contain_text("city: Rome")
    await expect(page.locator(".run")).to_have_attribute("aria-busy", "true")
    ticking = weather.locator(".elapsed")
    first = await ticking.inner_text()
    await expect(ticking).not_to_have_text(first)

    rome.open()
    await state_of(weather, "output-available")
    await weather.get_by_text("Result").click()
    await expect(weather.locator(".fields > div")).to_have_text(
        ["cityRome", "skysunny", "degrees21"]
    )
    await ended(page)
    await expect(page.locator(".run")).to_have_attribute("aria-busy", "false")
    done = await ticking.inner_text()
    await page.reload()
    await expect(ticking).to_have_text(done)


async def test_progress_is_a_bar_with_what_the_tool_says(stage_of: StageOf) -> None:
    stage = await stage_of([call("copy_files", count=4), "Copied."])
    second, fourth = stage.tools.hold("file 2"), stage.tools.hold("file 4")
    page = await stage.open(f"/runs/{await stage.start()}")
    files = card(page, "copy_files")
    await expect(files).to_contain_text("file 2 of 4")
    bar = files.get_by_role("progressbar", name="Progress of copy_files")
    for gate, share, said in [(second, "0.25", "25 %"), (fourth, "0.75", "75 %")]:
        await expect(bar).to_have_attribute("value", share)
        await expect(files.locator(".card-progress .hint").first).to_have_text(said)
        gate.open()
    await state_of(files, "output-available")
    await expect(bar).to_have_count(0)


async def test_a_call_that_fails_reports_why_and_a_bug_keeps_its_secret(stage_of: StageOf) -> None:
    wrong = raw_call("get_weather", '{"town": ')
    turn = calls(call("divide", dividend=1, divisor=0), call("crash"), call("fly"), wrong)
    stage = await stage_of([turn, "I give up."])
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    for tool, outcome, why in [
        ("divide", "error", "Nothing can be divided by zero."),
        ("crash", "error", "crash failed with an internal error."),
        ("fly", "unknown_tool", "There is no tool 'fly'."),
        ("get_weather", "invalid_arguments", "Invalid arguments for get_weather"),
    ]:
        failed = card(page, tool)
        await state_of(failed, "output-error")
        await expect(failed).to_have_attribute("data-outcome", outcome)
        await expect(failed.locator(".card-error")).to_contain_text(why)
    hint = card(page, "crash").get_by_text("The traceback is in the gateway's log, with call_")
    await expect(hint).to_be_visible()
    await expect(page.get_by_text("The traceback is")).to_have_count(1)
    await expect(page.locator("body")).not_to_contain_text("only the operator")


async def test_a_tool_is_run_again_from_its_card_and_the_model_gets_the_result(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), "It is sunny."])
    await stage.start(chat_id="weather")
    page = await stage.open("/chats/weather")
    await ended(page)
    weather = card(page, "get_weather")
    await page.locator(".toolfold > summary").click()
    await weather.get_by_role("button", name="Run again").click()
    by_hand = weather.get_by_role("region", name="get_weather, manual run")
    await expect(by_hand).to_have_attribute("data-outcome", "ok")
    await expect(by_hand.locator(".fields")).to_contain_text("skysunny")
    assert stage.tools.ran == ["get_weather", "get_weather"]

    await by_hand.get_by_role("button", name="Add to message").click()
    message = page.get_by_role("textbox", name="Message", exact=True)
    await expect(message).to_have_value(
        re.compile('I ran get_weather manually with {"city":"Rome"}')
    )


async def test_a_tool_that_needs_a_yes_is_not_run_again_without_one(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "Not paid."])
    page = await stage.open(f"/runs/{await stage.start()}")
    pay = card(page, "pay")
    await pay.get_by_role("button", name="Deny").click()
    await pay.get_by_role("button", name="Deny").click()
    await ended(page)
    await pay.get_by_role("button", name="Run again").click()
    await expect(pay.get_by_role("button", name="Approve and run")).to_be_visible()
    assert stage.tools.ran == []
    await pay.get_by_role("button", name="Approve and run").click()
    await expect(pay.get_by_role("region")).to_contain_text("paid 5 to the landlord")
    assert stage.tools.ran == ["pay"]


async def test_thoughts_are_folded_and_can_be_read(stage_of: StageOf) -> None:
    stage = await stage_of(think("The person means Rome.", "It is sunny."))
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    await expect(page.get_by_text("The person means Rome.")).to_have_count(0)
    await page.locator("summary", has_text="Thoughts").press("Enter")
    await expect(page.get_by_text("The person means Rome.")).to_be_visible()


async def test_pictures_of_the_model_are_shown_and_addresses_are_not_asked_for(
    stage_of: StageOf,
) -> None:
    elsewhere = FileData("https://example.org/picture.png", "image/png")
    stage = await stage_of(Turn(parts=(InlineData(PIXEL, "image/png"), elsewhere)))
    page = await stage.open(f"/runs/{await stage.start()}")
    await ended(page)
    picture = page.get_by_role("img", name="Image from the model")
    assert await picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1
    await expect(page.get_by_text("File: https://example.org/picture.png")).to_be_visible()
