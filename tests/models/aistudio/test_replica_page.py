"""The replica of the AI Studio page in a real browser: its editor, its tools, its markup."""

import pytest
from playwright.async_api import Error, expect
from tests.models.aistudio.replica_page import (
    DIALOG,
    EDIT,
    EDITOR,
    FUNCTION_ROW,
    FUNCTIONS,
    MODEL_TURN,
    RUN,
    SAVE,
    WEATHER,
    Opened,
    ask,
    edit,
    is_idle,
    opening,
    text_is,
)
from tests.support.browsing import IN_ONE_BROWSER, Chromium

from windlass.testing import Gate, slow

pytestmark = IN_ONE_BROWSER

REFUSED = {
    "[{]": "Invalid JSON",
    '{"name": "f"}': "must be an array",
    '[{"name": "f", "strict": true}]': 'Unknown key "strict" at functions[0]',
    '[{"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}]': "Missing type",
    '[{"name": "f", "parameters": {"type": "array", "items": {"title": "X"}}}]': 'key "title"',
}


@pytest.fixture
def opened(chromium: Chromium) -> Opened:
    return opening(chromium)


async def test_the_editor_refuses_to_save_what_it_does_not_take(opened: Opened) -> None:
    async with opened() as (fake, page):
        await page.click(FUNCTIONS)
        await page.click(EDIT)
        for text, problem in REFUSED.items():
            await page.fill(EDITOR, text)
            await page.click(SAVE)
            await expect(page.locator(f"{DIALOG} .error-message")).to_contain_text(problem)
            await expect(page.locator(DIALOG)).to_have_count(1)
    assert fake.saves == []


async def test_the_editor_only_reads_input_events(opened: Opened) -> None:
    async with opened() as (fake, page):
        await page.click(FUNCTIONS)
        await page.click(EDIT)
        await page.locator(EDITOR).evaluate("(field, text) => (field.value = text)", WEATHER)
        await page.click(SAVE)
        await expect(page.locator(DIALOG)).to_have_count(0)
        assert fake.saves == [[]]
        await page.click(EDIT)
        await expect(page.locator(EDITOR)).to_have_value("")


async def test_the_dialog_and_its_saving_are_late_and_the_visual_tab_comes_first(
    opened: Opened,
) -> None:
    late = {"dialog": Gate(), "save": Gate()}
    async with opened(late=late, visual_tab_first=True) as (fake, page):
        await page.click(FUNCTIONS)
        await page.click(EDIT)
        await late["dialog"].reached.wait()
        await expect(page.locator(DIALOG)).to_have_count(0)
        late["dialog"].open()
        await expect(page.locator(f"{DIALOG} h2")).to_have_text("Function declarations")
        await expect(page.locator(EDITOR)).to_have_count(0)
        await page.get_by_role("tab", name="Code Editor").click()
        await page.fill(EDITOR, WEATHER)
        await page.click(SAVE)
        await late["save"].reached.wait()
        await expect(page.locator(DIALOG)).to_have_count(1)
        late["save"].open()
        await expect(page.locator(DIALOG)).to_have_count(0)
    assert fake.saves[0][0]["name"] == "get_weather"


async def test_other_tools_exclude_function_calling_and_it_excludes_them(opened: Opened) -> None:
    async with opened(switched_on={"google_search"}, tools_collapsed=True) as (_, page):
        await expect(page.locator(FUNCTION_ROW)).to_have_count(0)
        panel = page.get_by_label("Expand or collapse tools")
        await panel.click()
        await expect(panel.locator("xpath=../..")).to_have_class("settings-tool-group expanded")
        functions = page.locator(FUNCTIONS)
        await expect(functions).to_have_class("mdc-switch mdc-switch--disabled")
        await page.click('[data-test-id="searchAsAToolTooltip"] button')
        await functions.click()
        await expect(functions).to_have_attribute("aria-checked", "true")
        await expect(page.get_by_label("Browse the url context")).to_be_disabled()


async def test_a_change_of_the_model_resets_the_tools_and_may_take_the_row(opened: Opened) -> None:
    async with opened(["Hi."], without_function_calling={"gemini-2.5-pro"}) as (fake, page):
        await edit(page, WEATHER)
        await page.get_by_label("Select a model").click()
        await page.get_by_role("button", name="gemini-2.5-pro").click()
        await expect(page.locator('[data-test-id="model-name"]')).to_have_text("gemini-2.5-pro")
        await expect(page.locator(FUNCTION_ROW)).to_have_count(0)
        await ask(page)
        await text_is(page, "Hi.")
    assert fake.requests[0].body["model"] == "gemini-2.5-pro"
    assert fake.requests[0].body["declarations"] == []


@pytest.mark.parametrize("resets", [True, False])
async def test_a_new_chat_asks_first_and_keeps_or_resets_the_tools(
    opened: Opened, resets: bool
) -> None:
    async with opened(["Hi."], new_chat_resets=resets) as (_, page):
        await edit(page, WEATHER)
        await ask(page)
        await is_idle(page)
        await page.get_by_label("New chat").click()
        await page.get_by_role("button", name="Discard and continue").click()
        await expect(page.locator("ms-chat-turn")).to_have_count(0)
        checked = str(not resets).lower()
        await expect(page.locator(FUNCTIONS)).to_have_attribute("aria-checked", checked)


async def test_the_settings_of_a_run_are_asked_with_it(opened: Opened) -> None:
    async with opened(["Hi."]) as (fake, page):
        await page.goto(f"{fake.url}?model=gemini-2.5-pro")
        await page.get_by_label("System instructions").fill("Be brief.")
        await page.get_by_label("Maximum output tokens").fill("64")
        await page.get_by_label("Temperature").fill("0.5")
        await page.get_by_label("Add stop token").fill("END")
        await page.get_by_label("Add stop token").press("Enter")
        await ask(page)
        await text_is(page, "Hi.")
    body = fake.requests[0].body
    assert (body["model"], body["system"]) == ("gemini-2.5-pro", "Be brief.")
    assert body["settings"] == {"max_output_tokens": 64, "temperature": 0.5, "stop": ["END"]}


async def test_the_older_markup_has_no_test_ids_and_says_disabled(opened: Opened) -> None:
    gate = Gate()
    async with opened([slow("Hi.", gate)], variant="older") as (_, page):
        await expect(page.locator("[data-test-id]")).to_have_count(0)
        await expect(page.locator(RUN)).to_be_disabled()
        await expect(page.locator(RUN)).not_to_have_attribute("aria-disabled", "true")
        await ask(page)
        await expect(page.locator('button[aria-label="Stop generating"]')).to_have_count(1)
        await expect(page.locator(".stoppable-spinner")).to_have_count(0)
        gate.open()
        await text_is(page, "Hi.")
        await expect(page.locator("[data-turn-role]")).to_have_count(0)
        await expect(page.locator(MODEL_TURN)).to_have_count(1)


async def test_the_newer_markup_has_other_classes_and_keeps_the_test_ids(opened: Opened) -> None:
    async with opened(["Hi."], variant="newer") as (_, page):
        await expect(page.locator(FUNCTIONS)).to_have_count(1)
        await edit(page, WEATHER)
        await expect(page.locator(".edit-function-declarations-button")).to_have_count(0)
        await ask(page)
        await expect(page.locator('[data-turn-role="Model"] ms-cmark-node')).to_have_text("Hi.")
        await expect(page.locator(".chat-turn-container, .turn-content")).to_have_count(0)


async def test_no_selector_finds_a_broken_part(opened: Opened) -> None:
    async with opened(broken={"edit_button"}) as (_, page):
        await expect(page.locator(FUNCTIONS)).to_have_count(1)
        await expect(page.locator(f"{FUNCTION_ROW} > x-renamed")).to_have_text("edit")
        attributes = await page.locator("x-renamed").evaluate("(part) => part.attributes.length")
        assert attributes == 0


async def test_a_switch_may_be_stuck_and_a_dialog_in_the_way(opened: Opened) -> None:
    async with opened(stuck={"function_calling"}, overlay="closable") as (_, page):
        await page.get_by_role("button", name="Close").click()
        await expect(page.locator(".cdk-overlay-backdrop")).to_have_count(0)
        await page.click(FUNCTIONS)
        await expect(page.locator(FUNCTIONS)).to_have_attribute("aria-checked", "false")


async def test_a_dialog_that_cannot_be_closed_receives_every_click(opened: Opened) -> None:
    async with opened(overlay="stuck") as (_, page):
        await page.keyboard.press("Escape")
        await expect(page.locator(DIALOG)).to_have_count(1)
        hit = await page.locator(FUNCTIONS).evaluate("""(button) => {
            const { x, y, width, height } = button.getBoundingClientRect();
            return document.elementFromPoint(x + width / 2, y + height / 2).className;
        }""")
        assert hit.startswith("cdk-overlay")


async def test_a_browser_that_is_not_signed_in_is_sent_away(opened: Opened) -> None:
    async with opened(signed_in=False) as (_, page):
        assert "signin" in page.url
        await expect(page.get_by_role("heading")).to_have_text("Sign in")


async def test_html_from_text_is_forbidden_and_nothing_leaves_the_machine(opened: Opened) -> None:
    async with opened(late={"page": 0.01}) as (fake, page):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.reload()
        await expect(page.locator(FUNCTIONS)).to_have_count(1)
        with pytest.raises(Error, match="TrustedHTML"):
            await page.evaluate("document.body.innerHTML = '<b>no</b>'")
        assert asked
        assert all(url.startswith(fake.root_url) for url in asked)
