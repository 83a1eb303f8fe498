"""One Chromium for the console's tests of a process, and stages that end with their test."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import async_playwright
from tests.console.stage import SharedContexts, Stage
from tests.support.browsing import HEADLESS, LEAN

from windlass.testing import Script

StageOf = Callable[..., Awaitable[Stage]]


@pytest_asyncio.fixture(loop_scope="session", scope="package")
async def browser() -> AsyncIterator[SharedContexts]:
    async with async_playwright() as playwright:
        flags = [*LEAN, "--js-flags=--expose-gc", "--enable-precise-memory-info"]
        browser = await playwright.chromium.launch(executable_path=HEADLESS, args=flags)
        yield SharedContexts(browser)
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def stage_of(browser: SharedContexts, tmp_path: Path) -> AsyncIterator[StageOf]:
    """Raises stages: `await stage_of([call("f"), "done"], kept=False, max_rounds=3)`.

    The options are those of `Stage.raised`. Without `kept`, the gateway stores no runs and has no
    chats.
    """
    async with AsyncExitStack() as stages:

        async def raised(script: Script[Any] = (), *, kept: bool = True, **options: Any) -> Stage:
            runs = Path(tempfile.mkdtemp(dir=tmp_path), "runs.db") if kept else None
            stage = await Stage.raised(browser, script, runs=runs, **options)
            stages.push_async_callback(stage.aclose)
            return stage

        yield raised
