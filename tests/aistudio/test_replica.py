"""The replica of the AI Studio page, in a real browser."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from windlass.testing import Script, call, calls, think
from windlass.testing.aistudio import FakeAIStudio

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
WEATHER = '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
MODEL_TURNS = "ms-chat-turn .chat-turn-container.model"
RUN = "footer ms-run-button button"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        await browser.close()


class Open(Protocol):
    def __call__(
        self, script: Script[Any] = (), **options: Any
    ) -> AbstractAsyncContextManager[tuple[FakeAIStudio, Page]]: ...


@pytest.fixture
def opened(browser: Browser) -> Open:
    @asynccontextmanager
    async def open_page(
        script: Script[Any] = (), **options: Any
    ) -> AsyncIterator[tuple[FakeAIStudio, Page]]:
        with FakeAIStudio(script, **options) as fake:
            context = await browser.new_context()
            context.set_default_timeout(10_000)
            page = await context.new_page()
            page.on("pageerror", lambda e: print("PAGEERROR", e))
            page.on("console", lambda e: print("CONSOLE", e.text))
            await page.goto(fake.url)
            try:
                yield fake, page
            finally:
                await context.close()

    return open_page


async def ask(page: Page, prompt: str) -> None:
    await page.fill("ms-autosize-textarea textarea", prompt)
    await page.click(RUN)


async def declare(page: Page, declarations: str) -> None:
    await page.get_by_role("switch", name="Function calling").click()
    await page.click('button[aria-label="Edit function declarations"]')
    await page.fill("ms-text-editor > textarea", declarations)
    await page.click('button[aria-label="Save the current function declarations"]')
    await expect(page.locator("mat-dialog-container")).to_have_count(0)


async def test_a_prompt_is_asked_and_the_answer_is_written_into_a_turn(opened: Open) -> None:
    async with opened([think("Hm.", "Hello there.")]) as (fake, page):
        await ask(page, "Hi")
        turns = page.locator(MODEL_TURNS)
        await expect(turns).to_have_count(2)
        await expect(
            turns.nth(0).locator("ms-thought-chunk .mat-expansion-panel-body")
        ).to_have_text("Hm.")
        await expect(turns.nth(1).locator("ms-cmark-node.cmark-node")).to_have_text("Hello there.")
        await expect(page.locator(RUN)).to_have_attribute("type", "submit")
    assert fake.requests[0].body["prompt"] == "Hi"


async def test_a_call_is_answered_in_its_field_and_the_model_goes_on(opened: Open) -> None:
    script = [call("get_weather", city="Paris"), "Sunny."]
    async with opened(script) as (fake, page):
        await declare(page, WEATHER)
        await ask(page, "Weather?")
        chunk = page.locator("ms-prompt-chunk > ms-function-call-chunk")
        name = chunk.locator("mat-panel-title span:not(.material-symbols-outlined)")
        await expect(name).to_have_text("get_weather")
        await expect(chunk.locator("pre code")).to_have_text('{"city":"Paris"}')
        await chunk.get_by_label("Enter a function response").fill('{"output": "sunny"}')
        await chunk.get_by_role("button", name="Send").click()
        await expect(page.locator(MODEL_TURNS).last.locator("ms-cmark-node")).to_have_text("Sunny.")
    body = fake.requests[1].body
    print(body)
    assert body["answers"] == [
        {"name": "get_weather", "arguments": '{"city":"Paris"}', "response": '{"output": "sunny"}'}
    ]
    assert body["declarations"][0]["name"] == "get_weather"
