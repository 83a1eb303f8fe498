"""One Chromium for the tests of a process, with reused pages, and models on them.

A module that uses it sets `pytestmark = IN_ONE_BROWSER`. Its tests then share an event loop,
because a browser belongs to one loop. The fixtures `chromium` and `model_on` are in conftest.py.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.aistudio.turn import Patience
from windlass.models.retry import Retry, Timeouts, Waiting
from windlass.settings import FunctionCallingSettings
from windlass.testing import Script
from windlass.testing.aistudio import FakeAIStudio
from windlass.testing.script import Latch, Stepper

CHROMIUM = Path("/usr/bin/chromium")
_SHELL = Path("/usr/bin/chromium-headless-shell")
HEADLESS = _SHELL if _SHELL.exists() else CHROMIUM
"""The same engine without windows, which cost more than most pages."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LEAN = (*FLAGS, "--in-process-gpu", "--process-per-site", "--renderer-process-limit=1")
"""With fewer processes, a page takes a quarter less CPU time."""
IN_ONE_BROWSER = pytest.mark.asyncio(loop_scope="session")
SHORT = Patience(quiet=0.05, late_call=0.2)
MakeModel = Callable[..., AIStudioModel]


class Chromium:
    """A browser whose pages are reused, because a reused page costs half of a new one."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[Page] = []
        self._bound: dict[Page, Any] = {}

    async def lend(self) -> Page:
        self._free = [page for page in self._free if not page.is_closed()]
        return self._free.pop() if self._free else await self._new_page()

    async def take_back(self, page: Page) -> None:
        if page.is_closed():
            return
        if bound := self._bound.pop(page, None):
            await bound.close()
        self._free.append(page)

    async def empty(self) -> None:
        """Empties the unused pages, so that they take no CPU time."""
        for page in self._free:
            if not page.is_closed():
                await page.goto("about:blank")

    async def _new_page(self) -> Page:
        page = await self._browser.new_page()
        expose = page.expose_binding

        async def exposed(*args: Any, **options: Any) -> None:
            """A name can be exposed only once, and the next user of the page needs the same."""
            self._bound[page] = await expose(*args, **options)

        page.expose_binding = exposed  # type: ignore[method-assign]
        return page


@asynccontextmanager
async def started_chromium() -> AsyncIterator[Chromium]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=HEADLESS, args=list(LEAN))
        yield Chromium(browser)
        await browser.close()


class SharedReplica:
    """One replica for several scripts, one after another: `with replica([call("f")]) as fake:`.

    Its page stays open, and each conversation begins a new chat, which is faster than a new page.
    """

    def __init__(self) -> None:
        self._stepper: Stepper[dict[str, Any]] = Stepper(())
        self._fake = FakeAIStudio(lambda body: self._stepper.next(body))

    @contextmanager
    def __call__(self, script: Script[dict[str, Any]]) -> Iterator[FakeAIStudio]:
        self._stepper = Stepper(script)
        self._fake.requests.clear()
        self._fake.saves.clear()
        self._fake.stopped = Latch()
        yield self._fake.start()

    def serves(self, url: str) -> bool:
        return url == self._fake.start().url

    def close(self) -> None:
        self._fake.close()


replica = SharedReplica()


class LentPages:
    """The browser of a model: it uses pages of the shared browser."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self.pages: list[Page] = []

    async def new_page(self) -> Page:
        self.pages.append(await self._chromium.lend())
        return self.pages[-1]

    async def aclose(self) -> None:
        pages, self.pages = self.pages, []
        for page in pages:
            await self._chromium.take_back(page)


def model_in(
    chromium: Chromium, url: str, name: str = "gemini-2.5-flash", **options: Any
) -> AIStudioModel:
    """Returns a model on an address. `model.own` is its part of the browser.

    Waits between attempts take no time, and waits for late calls are short.
    """
    own = LentPages(chromium)
    config = BrowserConfig(
        url,
        Path("unused"),
        None,
        pages=options.pop("pages", 1),
        snapshots=options.pop("snapshots", None),
    )
    settings = {"ui_timeout_ms": 10_000, **options.pop("settings", {})}
    model = AIStudioModel(
        name,
        config=config,
        settings=FunctionCallingSettings(**settings),
        patience=options.pop("patience", SHORT),
        retry=Retry(attempts=options.pop("attempts", 2)),
        timeouts=Timeouts(read=options.pop("silence", 50.0)),
        waiting=_no_waiting,
        browser=lambda _: own,
        **options,
    )
    model.own = own  # type: ignore[attr-defined]
    return model


def _no_waiting(retry: Retry) -> Waiting:
    async def at_once(_: float) -> None: ...

    return Waiting(retry, sleep=at_once)
