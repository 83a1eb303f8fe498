"""What the tests of the replica share: a browser, a page of its own for each test, its words."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from playwright.async_api import Browser, Error, Locator, Page, async_playwright, expect

from windlass.testing import Script
from windlass.testing.aistudio import FakeAIStudio

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 20_000

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


@asynccontextmanager
async def opening() -> AsyncIterator[Opened]:
    """Opens pages in one browser. Each has a context of its own."""
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield partial(_opened, browser)
        await browser.close()


@asynccontextmanager
async def _opened(
    browser: Browser, script: Script[Any] = (), **options: Any
) -> AsyncIterator[tuple[FakeAIStudio, Page]]:
    failures: list[Error] = []
    async with FakeAIStudio(script, **options) as fake:
        context = await browser.new_context()
        page = await context.new_page()
        page.on("pageerror", lambda error: failures.append(error))
        await page.goto(fake.url)
        yield fake, page
        await context.close()
    assert failures == []


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
