"""The replica of the AI Studio page, in a real browser: what a driver of the page can rely on."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Error, Locator, Page, async_playwright, expect

from windlass.content import Usage
from windlass.testing import (
    Gate,
    Script,
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
    FakeAIStudio,
    filled_late,
    late_calls,
    model_error,
    quota_callout,
    rendered_twice,
    toast,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
WEATHER = '[{"name": "get_weather", "parameters": {"type": "object"}}]'
PARIS = call("get_weather", city="Paris")
RUN = "footer ms-run-button button"
MODEL_TURN = "ms-chat-turn .chat-turn-container.model"
CALL = "ms-prompt-chunk > ms-function-call-chunk"
ARGUMENTS = f"{CALL} pre code"
DIALOG = "mat-dialog-container"
EDITOR = f'{DIALOG} ms-text-editor > textarea[placeholder^="Press Tab"]'
EDIT = 'button[aria-label="Edit function declarations"]'
SAVE = 'button[aria-label="Save the current function declarations"]'
FUNCTION_ROW = '[data-test-id="functionCallingTooltip"]'
FUNCTIONS = f"{FUNCTION_ROW} mat-slide-toggle button[role=switch]"
REFUSED = {
    "[{]": "Invalid JSON",
    '{"name": "f"}': "must be an array",
    '[{"name": "f", "strict": true}]': 'Unknown key "strict" at functions[0]',
    '[{"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}]': "Missing type",
    '[{"name": "f", "parameters": {"type": "array", "items": {"title": "X"}}}]': 'key "title"',
}


class Opened(Protocol):
    def __call__(
        self, script: Script[Any] = (), **options: Any
    ) -> AbstractAsyncContextManager[tuple[FakeAIStudio, Page]]: ...


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
def opened(browser: Browser) -> Opened:
    @asynccontextmanager
    async def open_page(
        script: Script[Any] = (), **options: Any
    ) -> AsyncIterator[tuple[FakeAIStudio, Page]]:
        async with FakeAIStudio(script, **options) as fake:
            context = await browser.new_context()
            page = await context.new_page()
            failures: list[Error] = []
            page.on("pageerror", lambda error: failures.append(error))
            await page.goto(fake.url)
            yield fake, page
            await context.close()
            assert failures == []

    return open_page


async def ask(page: Page, prompt: str = "Hello") -> None:
    await page.fill("ms-autosize-textarea textarea", prompt)
    await page.click(RUN)


async def edit(page: Page, text: str) -> None:
    await page.get_by_role("switch", name="Function calling").click()
    await page.click(EDIT)
    await page.fill(EDITOR, text)
    await page.click(SAVE)


async def answer(chunk: Locator, response: str) -> None:
    await chunk.get_by_label("Enter a function response").fill(response)
    await chunk.get_by_role("button", name="Send").click()


async def is_idle(page: Page) -> None:
    await expect(page.locator(RUN)).to_have_attribute("type", "submit")


async def text_is(page: Page, text: str) -> None:
    await expect(page.locator("ms-chat-turn").last.locator("ms-cmark-node")).to_have_text(text)


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
        await ask(page)
        await expect(run).to_have_attribute("type", "button")
        await expect(run).to_have_text("Stop")
        await expect(run.locator(".stoppable-spinner")).to_have_count(1)
        await expect(page.locator(MODEL_TURN)).to_have_count(0)
        first.open()
        await text_is(page, "One ")
        rest.open()
        await text_is(page, "One two")
        await is_idle(page)


async def test_control_and_enter_submit_and_clear_the_prompt(opened: Opened) -> None:
    async with opened(["Hello."]) as (_, page):
        field = page.get_by_label("Enter a prompt")
        await field.fill("Hi")
        await field.press("Control+Enter")
        await text_is(page, "Hello.")
        await expect(field).to_have_value("")


async def test_a_call_is_answered_in_its_field_and_the_model_goes_on(opened: Opened) -> None:
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


async def test_the_model_goes_on_after_each_answer_if_told_to(opened: Opened) -> None:
    async with opened([calls(PARIS, PARIS), "One.", "Two."], resume="each") as (fake, page):
        await ask(page)
        await answer(page.locator(CALL).nth(0), "first")
        await answer(page.locator(CALL).nth(1), "second")
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
            window.seen = 0;
            new MutationObserver((records) => {
                for (const { addedNodes } of records)
                    for (const node of addedNodes)
                        if (node.querySelector?.("pre")) window.seen += !node.matches("ms-chat-turn");
            }).observe(document.body, { childList: true, subtree: true });
        }""")
        await ask(page)
        await is_idle(page)
        await expect(page.locator(CALL)).to_have_count(1)
        assert await page.evaluate("window.seen") == 2


async def test_stop_ends_an_answer_that_never_ends(opened: Opened) -> None:
    async with opened([slow("One two", after=1), hang(), "Back."]) as (fake, page):
        for _ in range(2):
            await ask(page)
            await page.click(f"{RUN}[type=button]")
            await is_idle(page)
        await fake.stopped.wait()
        await ask(page)
        await text_is(page, "Back.")


@pytest.mark.parametrize(
    ("step", "selector", "message"),
    [
        (toast("Careful.", turn="Fine."), "div.toast.warning span.content-text", "Careful."),
        (refuse(400, "Wrong."), "div.toast.error span.content-text", "Wrong."),
        (quota_callout("No more."), "ms-callout.error-callout .message", "No more."),
        (model_error("Broken."), f"{MODEL_TURN} .model-error", "Broken."),
        (interrupt("One two", 1, error=refuse(503, "Full.")), f"{MODEL_TURN} .model-error", "Full."),
        (cut("One two", 1), "div.toast.error span.content-text", "Failed to generate content."),
    ],
    ids=["warning", "refusal", "quota", "model error", "interrupted", "cut"],
)
async def test_what_goes_wrong_is_shown_where_the_page_shows_it(
    opened: Opened, step: Any, selector: str, message: str
) -> None:
    async with opened([step]) as (_, page):
        await ask(page)
        await expect(page.locator(selector)).to_contain_text(message)
        await is_idle(page)


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


async def test_the_editor_knows_only_what_input_events_told_it(opened: Opened) -> None:
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
