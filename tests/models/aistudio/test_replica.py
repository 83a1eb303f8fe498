"""A script, played into the replica of the AI Studio page in a real browser."""

import pytest
from playwright.async_api import expect
from tests.models.aistudio.replica_page import (
    ARGUMENTS,
    CALL,
    MODEL_TURN,
    RUN,
    WEATHER,
    Opened,
    answer,
    ask,
    edit,
    is_idle,
    opening,
    text_is,
)
from tests.support.browsing import IN_ONE_BROWSER, Chromium

from windlass.content import Usage
from windlass.testing import (
    Gate,
    call,
    calls,
    cut,
    hang,
    interrupt,
    last_prompt,
    refuse,
    say,
    slow,
    think,
    tool_results,
)
from windlass.testing.aistudio import (
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
)

pytestmark = IN_ONE_BROWSER

PARIS = call("get_weather", city="Paris")


@pytest.fixture
def opened(chromium: Chromium) -> Opened:
    return opening(chromium)


async def test_thoughts_have_a_turn_of_their_own_before_the_text(opened: Opened) -> None:
    async with opened([think("Hm.", "Hello there.")]) as (fake, page):
        await ask(page, "Hi\nyou")
        turns = page.locator(MODEL_TURN)
        await expect(turns).to_have_count(2)
        thoughts = turns.nth(0).locator("ms-thought-chunk .mat-expansion-panel-body")
        await expect(thoughts).to_have_text("Hm.")
        await expect(turns.nth(1).locator("ms-cmark-node.cmark-node")).to_have_text("Hello there.")
        await is_idle(page)
    assert fake.requests[0].body["prompt"] == "Hi\nyou"
    assert last_prompt(fake.requests[0].body) == "Hi\nyou"


async def test_text_grows_and_the_run_button_tells_what_it_would_do(opened: Opened) -> None:
    first, rest = Gate(), Gate()
    step = slow(slow("One two", first), rest, after=1)
    async with opened([step]) as (_, page):
        run = page.locator(RUN)
        await expect(run).to_have_attribute("aria-disabled", "true")
        field = page.get_by_label("Enter a prompt")
        await field.fill("Hi")
        await expect(run).to_have_attribute("aria-disabled", "false")
        await field.press("Control+Enter")
        await expect(field).to_have_value("")
        await expect(run).to_have_attribute("type", "button")
        await expect(run).to_have_text("Stop")
        await expect(run.locator(".stoppable-spinner")).to_have_count(1)
        await expect(page.locator(MODEL_TURN)).to_have_count(0)
        first.open()
        await text_is(page, "One ")
        rest.open()
        await text_is(page, "One two")
        await is_idle(page)


async def test_a_call_is_answered_in_its_field_and_the_model_continues(opened: Opened) -> None:
    async with opened([PARIS, "Sunny."]) as (fake, page):
        await edit(page, WEATHER)
        await ask(page, "Weather?")
        title = page.locator(f"{CALL} mat-panel-title span:not(.material-symbols-outlined)")
        await expect(title).to_have_text("get_weather")
        await expect(page.locator(ARGUMENTS)).to_have_text('{"city":"Paris"}')
        await is_idle(page)
        await answer(page.locator(CALL), '{"output": "sunny"}')
        await text_is(page, "Sunny.")
        await expect(page.get_by_label("Enter a function response")).to_be_disabled()
    first, second = (request.body for request in fake.requests)
    assert first["declarations"] == fake.saves[0]
    assert first["switches"]["function_calling"] is True
    assert second["prompt"] is None
    assert second["answers"] == [
        {"name": "get_weather", "arguments": '{"city":"Paris"}', "response": '{"output": "sunny"}'}
    ]
    assert [result.response for result in tool_results(second)] == [{"output": "sunny"}]


async def test_the_model_waits_for_all_answers_to_identical_calls(opened: Opened) -> None:
    async with opened([calls(PARIS, PARIS), "Done."], answered="kept") as (fake, page):
        await ask(page)
        chunks = page.locator(CALL)
        await expect(chunks).to_have_count(2)
        await answer(chunks.nth(1), "second")
        await is_idle(page)
        await answer(chunks.nth(0), "first")
        await text_is(page, "Done.")
        await expect(chunks.nth(1).locator("input")).to_be_enabled()
    assert [a["response"] for a in fake.requests[1].body["answers"]] == ["first", "second"]


async def test_the_model_continues_after_each_answer_if_scripted(opened: Opened) -> None:
    gate = Gate()
    script = [calls(PARIS, PARIS), slow("One.", gate), "Two."]
    async with opened(script, resume="each") as (fake, page):
        await ask(page)
        await answer(page.locator(CALL).nth(0), "first")
        await gate.reached.wait()
        await answer(page.locator(CALL).nth(1), "second")
        gate.open()
        await text_is(page, "Two.")
    told = [[a["response"] for a in request.body["answers"]] for request in fake.requests]
    assert told == [[], ["first"], ["second"]]


async def test_calls_come_after_the_button_is_idle(opened: Opened) -> None:
    gate = Gate()
    async with opened([late_calls(calls(PARIS, text="Wait."), gate)]) as (_, page):
        await ask(page)
        await text_is(page, "Wait.")
        await is_idle(page)
        await expect(page.locator(CALL)).to_have_count(0)
        gate.open()
        await expect(page.locator(ARGUMENTS)).to_have_text('{"city":"Paris"}')


async def test_arguments_are_empty_and_then_filled(opened: Opened) -> None:
    gate = Gate()
    async with opened([filled_late(PARIS, gate)]) as (_, page):
        await ask(page)
        await expect(page.locator(CALL)).to_have_count(1)
        await is_idle(page)
        await expect(page.locator(ARGUMENTS)).to_have_text("")
        gate.open()
        await expect(page.locator(ARGUMENTS)).to_have_text('{"city":"Paris"}')


async def test_a_call_is_rendered_twice_and_stays_one(opened: Opened) -> None:
    async with opened([rendered_twice(PARIS)]) as (_, page):
        await page.evaluate("""() => {
            window.seen = new Set();
            const look = () =>
                document.querySelectorAll("ms-function-call-chunk").forEach((c) => seen.add(c));
            new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
        }""")
        await ask(page)
        await is_idle(page)
        await expect(page.locator(CALL)).to_have_count(1)
        assert await page.evaluate("window.seen.size") == 2


async def test_pressing_stop_ends_an_endless_answer(opened: Opened) -> None:
    async with opened([slow("One two", after=1), hang(), "Back."]) as (fake, page):
        for _ in range(2):
            await ask(page)
            await page.click(f"{RUN}[type=button]")
            await is_idle(page)
        await fake.stopped.wait()
        await ask(page)
        await text_is(page, "Back.")


async def test_errors_are_shown_where_the_page_shows_them(opened: Opened) -> None:
    toast_text, in_turn = "div.toast.error span.content-text", f"{MODEL_TURN} .model-error"
    shown = [
        (toast("Careful.", turn="Fine."), "div.toast.warning span.content-text", "Careful."),
        (refuse(400, "Wrong."), toast_text, "Wrong."),
        (quota_callout("No more."), "ms-callout.error-callout .message", "No more."),
        (cut("One two", 1), toast_text, "Failed to generate content."),
        (model_error("Broken."), in_turn, "Broken."),
        (interrupt("One two", 1, error=refuse(503, "Full.")), in_turn, "Full."),
    ]
    async with opened([step for step, _, _ in shown]) as (_, page):
        for _, selector, message in shown:
            await ask(page)
            await expect(page.locator(selector).last).to_contain_text(message)
            notices = 0 if selector == in_turn else 1
            await expect(page.locator("div.toast, ms-callout")).to_have_count(notices)
            await is_idle(page)


async def test_a_turn_is_run_again_by_its_own_button(opened: Opened) -> None:
    async with opened(["One.", "Two."]) as (fake, page):
        await ask(page)
        await is_idle(page)
        await page.get_by_label("Rerun this turn").last.click()
        await text_is(page, "Two.")
        await expect(page.locator(MODEL_TURN)).to_have_count(1)
    assert fake.requests[1].body["contents"] == fake.requests[0].body["contents"]


async def test_turns_off_the_screen_are_empty_and_the_timer_ticks(opened: Opened) -> None:
    usage = Usage(input_tokens=1000, output_tokens=234, total_tokens=1234)
    async with opened(["One.", say("Two.", usage=usage)], visible_turns=2) as (fake, page):
        await ask(page)
        await text_is(page, "One.")
        await is_idle(page)
        await ask(page)
        await text_is(page, "Two.")
        contents = page.locator("ms-chat-turn .turn-content")
        assert await contents.all_inner_texts() == ["", "", "Hello", "Two."]
        await expect(page.locator("ms-token-count")).to_have_text("1,234 tokens")
        timer = page.locator("ms-chat-turn").last.locator(".timer")
        await expect(timer).not_to_have_text(await timer.inner_text())
    said = [part["text"] for turn in fake.requests[1].body["contents"] for part in turn["parts"]]
    assert said == ["Hello", "One.", "Hello"]
