"""Helpers of the replica's tests: a page in a browser for each test, and its texts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from playwright.async_api import Error, Locator, Page, expect
from tests.support.browsing import Chromium

from windlass.testing import Script
from windlass.testing.aistudio import FakeAIStudio

PATIENCE_MS = 60_000

WEATHER = '[{"name": "get_weather", "parameters": {"type": "object"}}]'
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

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[FakeAIStudio, Page]]]
"""The replica with this script and these options, and a browser's page that shows it."""


def opening(chromium: Chromium) -> Opened:
    expect.set_options(timeout=PATIENCE_MS)

    @asynccontextmanager
    async def opened(
        script: Script[Any] = (), **options: Any
    ) -> AsyncIterator[tuple[FakeAIStudio, Page]]:
        failures: list[Error] = []

        def failed(error: Error) -> None:
            failures.append(error)

        async with FakeAIStudio(script, **options) as fake:
            page = await chromium.lend()
            page.on("pageerror", failed)
            await page.goto(fake.url)
            yield fake, page
            page.remove_listener("pageerror", failed)
            await chromium.take_back(page)
        assert failures == []

    return opened


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
