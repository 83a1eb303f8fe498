"""A run in the page: its waterfall, its budget, why it ended, and the calls that a stop
interrupted."""

import re

import pytest
from playwright.async_api import Locator, Page, expect
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, Stage, card, ended, state_of

from windlass.content import Usage
from windlass.testing import Step, call, calls, cut, refuse, say, slow

pytestmark = IN_ONE_BROWSER

NARROWEST = 3
"""Pixels of a bar for what took no time at all."""
PLACES = """(rows) => rows.map((row) => [...row.querySelectorAll(".bar")].map((bar) => {
  const { left, right } = bar.getBoundingClientRect();
  return [left, right];
}))"""


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Waterfall").get_by_role("listitem")


async def shown(stage: Stage) -> Page:
    return await stage.open(f"/runs/{await stage.start()}")


async def test_rounds_and_tools_share_one_live_axis(stage_of: StageOf) -> None:
    both = calls(call("get_weather", city="Rome"), call("pay", amount=5), usage=Usage(1200, 34))
    stage = await stage_of([both, slow("Sunny.")])
    rome, paying = stage.tools.hold("Rome"), stage.tools.hold("the landlord")
    page = await shown(stage)
    await state_of(card(page, "get_weather"), "running")
    await state_of(card(page, "pay"), "approval-requested")
    await expect(page.locator(".budget")).to_have_count(0)
    await expect(rows(page)).to_contain_text(
        ["1,200 tokens in, 34 out", "get_weather (Rome): ran", "pay (5): waited for approval"]
    )
    await card(page, "pay").get_by_role("button", name="Approve").click()
    await state_of(card(page, "pay"), "running")
    bars = rows(page).locator(".bar")
    kinds = ["model", "tool", "approval", "tool"]
    for number, kind in enumerate(kinds):
        await expect(bars.nth(number)).to_have_attribute("data-kind", kind)
    [[model], [weather], [waited, paid]] = await rows(page).evaluate_all(PLACES)
    assert model[0] <= weather[0] <= waited[0] < paid[0]
    assert waited[1] <= paid[0] + NARROWEST
    assert weather[1] == pytest.approx(paid[1], abs=NARROWEST + 1), "active bars end now"

    paying.open()
    rome.open()
    await expect(rows(page)).to_have_count(4)
    label = rows(page).nth(2).get_by_role("button", name="pay")
    indent = "label => getComputedStyle(label).paddingLeft"
    before = await label.evaluate(indent)
    await label.hover()
    assert await label.evaluate(indent) == before == "16px"
    await expect(page.locator(".wf-told")).to_contain_text("pay (5): waited for approval")
    await rows(page).nth(2).get_by_role("button", name="pay").press("Enter")
    await expect(card(page, "pay")).to_be_focused()


async def test_the_last_round_says_that_tools_are_off_and_the_run_why_it_ended(
    stage_of: StageOf,
) -> None:
    last = slow("That is all.")
    stage = await stage_of([call("get_weather", city="Rome"), last], max_rounds=1)
    page = await shown(stage)
    await expect(page.locator(".budget")).to_have_text(re.compile("Tools off: final answer"))
    assert last.gate is not None
    last.gate.open()
    await ended(page, "max_rounds")
    await expect(page.locator(".ending")).to_contain_text("limit of tool rounds")


@pytest.mark.parametrize(
    ("step", "reason", "words"),
    [
        (say("Half", finish="length"), "length", "reached the model's output limit"),
        (say("", finish="content_filter"), "content_filter", "content filter blocked"),
        (refuse(400, "There is no such model."), "error", "There is no such model."),
        (cut("Half an ans", after=1), "error", "The run failed."),
    ],
)
async def test_a_run_that_did_not_end_well_reports_why(
    stage_of: StageOf, step: Step, reason: str, words: str
) -> None:
    stage = await stage_of([step])
    page = await shown(stage)
    await ended(page, reason)
    await expect(page.locator(".ending")).to_contain_text(words)


async def test_a_stop_says_what_is_cancelled_for_sure_and_what_may_have_had_an_effect(
    stage_of: StageOf,
) -> None:
    turn = calls(
        call("divide", dividend=4, divisor=2),
        call("send_mail", to="Ann"),
        call("get_weather", city="Rome"),
        call("pay", amount=5),
    )
    stage = await stage_of([turn])
    for place in ("Ann", "Rome"):
        stage.tools.hold(place)
    page = await shown(stage)
    await state_of(card(page, "divide"), "output-available")
    for tool in ("send_mail", "get_weather"):
        await state_of(card(page, tool), "running")
    await state_of(card(page, "pay"), "approval-requested")
    await page.get_by_role("button", name="Stop").click()
    await ended(page, "stopped")

    left = page.get_by_role("region", name="Interrupted calls")
    unknown = left.locator('[data-effect="unknown"]')
    await expect(unknown).to_contain_text("May have had an effect")
    await expect(unknown.get_by_role("listitem")).to_have_text(
        ["send_mail was interrupted while running and may have had an effect."]
    )
    await expect(left.locator('[data-effect="confirmed"]').get_by_role("listitem")).to_have_text(
        ["get_weather was interrupted and is safe to run again.", "pay never started."]
    )
    await expect(left).to_contain_text("1 call had already finished.")
    for tool, effect in [
        ("send_mail", "unknown"),
        ("get_weather", "confirmed"),
        ("pay", "confirmed"),
    ]:
        await state_of(card(page, tool), "cancelled")
        await expect(card(page, tool)).to_have_attribute("data-effect", effect)


async def test_a_stop_without_an_active_tool_is_reported(stage_of: StageOf) -> None:
    stage = await stage_of(slow("Never said."))
    page = await shown(stage)
    await page.get_by_role("button", name="Stop").click()
    await ended(page, "stopped")
    await expect(page.get_by_role("region", name="Interrupted calls")).to_have_text(
        "Stopped. No tool was called."
    )


async def test_a_run_is_deleted_only_when_one_is_sure(stage_of: StageOf) -> None:
    stage = await stage_of("Hello.")
    run_id = await stage.start("A question.", chat_id="words")
    page = await stage.open(f"/runs/{run_id}")
    await ended(page)
    await expect(page.get_by_role("region", name="Prompt")).to_have_text("A question.")
    await expect(page.get_by_role("link", name="Open chat")).to_have_attribute(
        "href", "/chats/words"
    )
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete permanently").click()
    await expect(page).to_have_url(f"{stage.origin}/runs")
    stage.watch.expects("404")
    await stage.goto(page, f"/runs/{run_id}")
    await expect(page.get_by_role("heading", name="Run not found")).to_be_visible()


async def test_of_hundreds_of_calls_the_last_are_shown_and_the_others_on_demand(
    stage_of: StageOf,
) -> None:
    many = [call("quote", text=f"number {number}") for number in range(230)]
    stage = await stage_of([calls(*many), "That was a lot."])
    page = await shown(stage)
    await ended(page)
    await expect(card(page, "quote")).to_have_count(200)
    await expect(card(page, "quote").first).to_contain_text("number 30")
    await page.get_by_role("button", name="Show 30 earlier items").click()
    await expect(card(page, "quote").first).to_contain_text("number 0")
    await expect(rows(page)).to_have_count(60)
    await page.get_by_role("button", name="Show 172 earlier rows").click()
    await expect(rows(page)).to_have_count(232)
