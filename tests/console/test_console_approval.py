"""Approving and rejecting a call by keyboard."""

import re

from playwright.async_api import Locator, Page, expect
from tests.console.axe import axe
from tests.console.chatting import Listening
from tests.console.conftest import StageOf
from tests.console.stage import IN_ONE_BROWSER, Stage, ask, card, ended, state_of

from windlass.testing import call, calls

pytestmark = IN_ONE_BROWSER

TYPE_ON = """
document.addEventListener("focusin", ({ target }) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true })));
"""
"""A user who types just when the focus moves."""


async def asked(stage: Stage) -> tuple[Page, Locator]:
    """A page on a run that waits, and the card that does, when it listens to keys."""
    page = await stage.open(f"/runs/{await stage.start()}")
    waiting = card(page, "pay")
    await state_of(waiting, "approval-requested")
    await expect(waiting).to_be_focused()
    await listens(waiting)
    return page, waiting


async def listens(waiting: Locator) -> None:
    """It reacts to keys only after a moment: the user may be typing when the focus moves."""
    await expect(waiting.get_by_text("a approve, e edit, d deny")).to_be_visible()


async def test_a_call_that_waits_has_the_focus_is_announced_and_one_key_approves_it(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."])
    page, pay = await asked(stage)
    told = page.locator("[data-announcer]")
    await expect(told).to_contain_text("pay needs your approval.")
    await page.keyboard.press("a")
    await state_of(pay, "output-available")
    await expect(pay).to_be_focused()
    await expect(pay).to_contain_text("Approved.")
    await ended(page)
    assert stage.tools.ran == ["pay"]


async def test_a_no_gives_the_model_its_reason(stage_of: StageOf) -> None:
    model = Listening(call("pay", amount=5), "Then not.")
    stage = await stage_of(model)
    page, pay = await asked(stage)
    await page.keyboard.press("d")
    reason = pay.get_by_label("Reason (optional)")
    await expect(reason).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(pay).to_be_focused()
    await listens(pay)
    await page.keyboard.press("d")
    await reason.press_sequentially("a day too early")
    await page.keyboard.press("Enter")
    await state_of(pay, "denied")
    await expect(pay).to_contain_text("The call was denied: a day too early.")
    await ended(page)
    assert "a day too early" in str(model.messages[-1])
    assert stage.tools.ran == []


async def test_the_question_for_a_reason_is_whole_in_a_low_window(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5, payee="the landlord " * 30), "Then not."])
    page = await stage.open("/", viewport={"width": 640, "height": 400})
    await ask(page, "Pay.")
    await page.get_by_role("button", name="Deny").click()
    await expect(page.get_by_label("Reason (optional)")).to_be_focused()
    await expect(page.get_by_label("Reason (optional)")).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("button", name="Deny")).to_be_in_viewport(ratio=1)
    await page.get_by_role("button", name="Deny").click()
    await ended(page)


async def test_a_key_press_for_another_field_decides_nothing(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5), "Then not."])
    run_id = await stage.start()
    page = await stage.open("/runs")
    await page.add_init_script(TYPE_ON)
    await stage.goto(page, f"/runs/{run_id}")
    pay = card(page, "pay")
    await expect(pay).to_be_focused()
    await listens(pay)
    await state_of(pay, "approval-requested")
    await page.keyboard.press("d")
    await page.keyboard.press("Enter")
    await state_of(pay, "denied")
    await ended(page)
    assert stage.tools.ran == []


async def test_arguments_are_edited_and_approved_by_keyboard(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=500), "It is paid."])
    page, pay = await asked(stage)
    await page.keyboard.press("e")
    await expect(pay.get_by_label("amount")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(pay).to_be_focused()
    await page.keyboard.press("e")
    amount = pay.get_by_label("amount")
    await expect(amount).to_be_focused()
    await amount.fill("much")
    await page.keyboard.press("Enter")
    await expect(amount).to_have_attribute("aria-invalid", "true")
    await state_of(pay, "approval-requested")
    await amount.fill("50")
    await page.keyboard.press("Enter")
    await state_of(pay, "output-available")
    await expect(pay).to_contain_text("paid 50 to the landlord")
    await expect(pay).to_contain_text("Approved with edited arguments")
    await expect(pay.locator(".folded-preview")).to_have_text(
        ["amount: 50", "amount: 500", "paid 50 to the landlord"]
    )
    await ended(page)


async def test_waiting_calls_are_decided_one_after_the_other(stage_of: StageOf) -> None:
    stage = await stage_of([calls(call("pay", amount=1), call("pay", amount=2)), "Done."])
    page = await stage.open(f"/runs/{await stage.start()}")
    first, second = card(page, "pay").nth(0), card(page, "pay").nth(1)
    await expect(first).to_be_focused()
    await listens(first)
    await page.keyboard.press("a")
    await expect(second).to_be_focused()
    await listens(second)
    await page.keyboard.press("d")
    await page.keyboard.press("Enter")
    await ended(page)
    await state_of(first, "output-available")
    await state_of(second, "denied")


async def test_typing_is_not_interrupted_and_letters_in_a_field_decide_nothing(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("get_weather", city="Rome"), call("pay", amount=5), "It is paid."])
    rome = stage.tools.hold("Rome")
    page = await stage.open("/")
    await ask(page, "Pay.")
    await state_of(card(page, "get_weather"), "running")
    message = page.get_by_role("textbox", name="Message", exact=True)
    await message.fill("A")
    rome.open()
    pay = card(page, "pay")
    await state_of(pay, "approval-requested")
    await expect(message).to_be_focused()
    await message.press_sequentially("dad")
    await pay.get_by_role("button", name="Deny").click()
    await expect(pay.get_by_label("Reason (optional)")).to_be_focused()
    await page.keyboard.type("dad")
    await state_of(pay, "approval-requested")
    await pay.get_by_role("button", name="Cancel").click()
    await pay.get_by_role("button", name="Approve").click()
    await ended(page)
    assert stage.tools.ran == ["get_weather", "pay"]


async def test_a_late_decision_is_reported(stage_of: StageOf) -> None:
    stage = await stage_of([call("pay", amount=5, id="call_pay"), "It is paid."])
    run_id = await stage.start()
    page = await stage.open(f"/runs/{run_id}")
    pay = card(page, "pay")
    await state_of(pay, "approval-requested")
    landlord = stage.tools.hold("the landlord")
    stage.watch.expects("409|net::ERR")
    await page.route("**/events*", lambda route: route.abort())
    await page.context.set_offline(True)
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    await page.context.set_offline(False)
    await stage.post(f"/v1/runs/{run_id}/approve", {"call_id": "call_pay"})
    await pay.get_by_role("button", name="Approve").click()
    await expect(pay.get_by_role("alert")).to_contain_text("decided elsewhere")
    landlord.open()
    await page.unroute("**/events*")
    await ended(page)


async def test_a_call_that_waits_says_what_it_would_do_and_for_how_long_it_waits(
    stage_of: StageOf,
) -> None:
    stage = await stage_of([call("pay", amount=5), "It is paid."], approval_timeout=1000)
    page, pay = await asked(stage)
    await expect(pay).to_contain_text("Pays somebody, once a person has said yes.")
    arguments = pay.locator(".fields > div")
    await expect(arguments).to_have_text(["amount5", "payeethe landlord default"])
    await expect(pay.locator(".countdown")).to_have_text(
        re.compile(r"Without a decision, the call is denied in 1[56] min \d+ s\.")
    )
    await expect(page).to_have_title(re.compile(r"^\(1\) Approval needed · "))
    await expect(pay.get_by_role("button", name="Always allow")).to_have_count(0)  # no chat
    await axe(page)
    await page.keyboard.press("d")
    await expect(pay.get_by_label("Reason (optional)")).to_be_focused()
    await axe(page)
    await page.keyboard.press("Enter")
    await ended(page)
    await expect(page).not_to_have_title(re.compile("Approval needed"))


async def test_a_tool_that_is_always_allowed_is_not_asked_about_again_in_this_chat(
    stage_of: StageOf,
) -> None:
    stage = await stage_of(Listening(*[call("pay", amount=5), "Paid."] * 2, call("pay", amount=6)))
    page = await stage.open("/")
    await ask(page, "Pay.")
    await card(page, "pay").get_by_role("button", name="Always allow in this chat").click()
    await ended(page)
    await ask(page, "Again.")
    await expect(page.locator('.run[data-reason="answer"]')).to_have_count(2)
    assert stage.tools.ran == ["pay", "pay"]
    await page.locator(".toolfold > summary").last.click()
    await page.get_by_role("button", name="Ask again").last.click()
    await ask(page, "And again.")
    await state_of(card(page, "pay").last, "approval-requested")

    other = await stage.open("/", context=page.context)
    await ask(other, "Pay.")
    await state_of(card(other, "pay"), "approval-requested")
