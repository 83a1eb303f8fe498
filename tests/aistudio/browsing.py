"""One Chromium for a module of tests, and models that work in it.

A module that uses it says `pytestmark = IN_ONE_BROWSER` and imports the fixtures `chromium` and
`model_on`; its tests then share an event loop, which is what a browser is bound to.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.aistudio.turn import Patience
from windlass.models.retry import Retry, Timeouts
from windlass.models.turn import Waiting
from windlass.settings import FunctionCallingSettings

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
IN_ONE_BROWSER = pytest.mark.asyncio(loop_scope="module")
SHORT = Patience(quiet=0.05, late_call=0.2)
MakeModel = Callable[..., AIStudioModel]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        await browser.close()


class OwnContext:
    """Pages of the shared browser that no other model sees."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._context: BrowserContext | None = None
        self.pages: list[Page] = []

    async def new_page(self) -> Page:
        self._context = self._context or await self._browser.new_context()
        self.pages.append(await self._context.new_page())
        return self.pages[-1]

    async def aclose(self) -> None:
        if self._context:
            await self._context.close()


def model_in(
    chromium: Browser, url: str, name: str = "gemini-2.5-flash", **options: Any
) -> AIStudioModel:
    """A model on an address; `model.own` is its part of the browser.

    Waits between attempts take no time, and the patience with late calls is short.
    """
    own = OwnContext(chromium)
    snapshots = options.pop("snapshots", None)
    config = BrowserConfig(
        url, Path("unused"), None, pages=options.pop("pages", 1), snapshots=snapshots
    )
    settings = {"ui_timeout_ms": 3000, **options.pop("settings", {})}
    model = AIStudioModel(
        name,
        config=config,
        settings=FunctionCallingSettings(**settings),
        patience=options.pop("patience", SHORT),
        retry=Retry(attempts=2),
        timeouts=Timeouts(read=options.pop("silence", 20.0)),
        waiting=_no_waiting,
        browser=lambda _: own,
        **options,
    )
    model.own = own  # type: ignore[attr-defined]
    return model


@pytest_asyncio.fixture(loop_scope="module")
async def model_on(chromium: Browser) -> AsyncIterator[MakeModel]:
    """Models on addresses, as `model_in` makes them: `model_on(fake.url, pages=2)`."""
    models: list[AIStudioModel] = []

    def make(url: str, *name: str, **options: Any) -> AIStudioModel:
        models.append(model_in(chromium, url, *name, **options))
        return models[-1]

    yield make
    for model in models:
        await model.aclose()


def _no_waiting(retry: Retry) -> Waiting:
    async def at_once(_: float) -> None: ...

    return Waiting(retry, sleep=at_once)
