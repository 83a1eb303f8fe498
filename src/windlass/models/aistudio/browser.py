"""The browser with the user's profile, and the pool of its pages.

Only one browser can use a profile, so all models of an event loop with the same profile share it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from windlass.content import Message
from windlass.errors import ModelError
from windlass.models.aistudio.config import INSTALL_BROWSER, BrowserConfig
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.wire import PagePrompt, SaidTurn, plan_of

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Playwright


_NEW_WINDOW = {"url": "about:blank", "newWindow": True}
_open: dict[tuple[asyncio.AbstractEventLoop, Path], Browser] = {}
"""The browsers in use, by event loop and profile."""


class SharedBrowser:
    """A model's pages in the shared browser of its profile. The last user closes the browser."""

    def __init__(self, config: BrowserConfig) -> None:
        self._config = config
        self._browser: Browser | None = None
        self._pages: list[Page] = []

    async def new_page(self) -> Page:
        """A new page. Raises `ModelError` as `Browser.new_page` does."""
        if self._browser is None:
            self._browser = _open.setdefault(self._key, Browser(self._config))
            self._browser.users += 1
        page = await self._browser.new_page()
        self._pages.append(page)
        return page

    async def aclose(self) -> None:
        browser, self._browser = self._browser, None
        pages, self._pages = self._pages, []
        if browser is None:
            return
        browser.users -= 1
        if browser.users:
            for page in pages:
                await page.close()
            return
        await browser.aclose()
        if not browser.users:  # a new user may have come while it closed
            _open.pop(self._key, None)

    @property
    def _key(self) -> tuple[asyncio.AbstractEventLoop, Path]:
        return asyncio.get_running_loop(), self._config.profile.absolute()


class Browser:
    """The browser of one profile, started at first use.

    It is not disguised, and Windlass never sees a password: the user signs in manually, and the
    profile stores the session.
    """

    def __init__(self, config: BrowserConfig) -> None:
        self._config = config
        self.users = 0
        self._opening = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None

    async def new_page(self) -> Page:
        """A page in its own window, because browsers rarely redraw pages in background tabs.

        Raises `ModelError` if the browser cannot start, or another browser uses the profile.
        """
        async with self._opening:
            if self._context is None:
                self._context = await self._started()
                if self._context.pages:
                    return self._context.pages[0]
            context = self._context
            if not context.pages:
                return await context.new_page()
            session = await context.new_cdp_session(context.pages[0])
            async with context.expect_page() as opened:
                await session.send("Target.createTarget", _NEW_WINDOW)  # pyright: ignore[reportUnknownMemberType]
            await session.detach()
            return await opened.value

    async def aclose(self) -> None:
        async with self._opening:
            await self._close()

    async def _close(self) -> None:
        context, self._context = self._context, None
        playwright, self._playwright = self._playwright, None
        if context is not None:
            await context.close()
        if playwright is not None:
            await playwright.stop()

    async def _started(self) -> BrowserContext:
        from playwright.async_api import Error, async_playwright

        config = self._config
        try:
            if self._playwright is None:
                self._playwright = await async_playwright().start()
            config.profile.mkdir(parents=True, exist_ok=True, mode=0o700)
            context = await self._playwright.chromium.launch_persistent_context(
                config.profile,
                executable_path=config.program,
                headless=config.headless,
                args=list(config.arguments),
                chromium_sandbox=_has_sandbox(),
            )
        except (Error, OSError) as error:
            await self._close()
            raise _start_error(config, str(error)) from None
        context.on("close", lambda _: self._on_close(context))
        return context

    def _on_close(self, context: BrowserContext) -> None:
        """Handles a closed or crashed browser: the next page starts it again."""
        if self._context is context:
            self._context = None


def _has_sandbox() -> bool:
    """Chromium's sandbox does not work for root."""
    return sys.platform == "win32" or os.geteuid() != 0


def _start_error(config: BrowserConfig, said: str) -> ModelError:
    """The error if the browser cannot start. It says what the operator can do."""
    if "ProcessSingleton" in said or "SingletonLock" in said or "already in use" in said:
        reason = (
            f"the browser profile {config.profile} is open in another browser: close it, or give"
            " each process its own profile with WINDLASS_AISTUDIO_PROFILE"
        )
        public = (
            "the browser profile of {upstream} is open in another browser: the operator must close"
            " it, or set WINDLASS_AISTUDIO_PROFILE"
        )
    else:
        first = next((line for line in said.splitlines() if line.strip()), "no reason given")
        reason = f"cannot start the browser ({first.strip()}); {INSTALL_BROWSER}"
        public = f"cannot start the browser of {{upstream}}; the operator must {INSTALL_BROWSER}"
    return ModelError(reason, status=503, code="browser_unavailable", public=public)


class HeldPage:
    """A page and its known state."""

    def __init__(self, chat: ChatPage) -> None:
        self.chat = chat
        self.live: tuple[SaidTurn, ...] | None = None
        """The turns of the chat on the page; None if the chat cannot be continued."""
        self.declared: str | None = None
        """The digest of the declarations in the page's editor, if known."""
        self.declared_at = 0.0
        self.used_at = 0.0
        self.defaults: dict[str, str] = {}
        """The values of the settings' fields before a request changed them."""

    def forget(self) -> None:
        """Forgets the state after an unknown change."""
        self.live = self.declared = None


class PagePool:
    """Up to `limit` pages, opened when needed, one conversation on each. Others wait in order."""

    def __init__(self, open_page: Callable[[], Awaitable[ChatPage]], limit: int) -> None:
        self._open_page, self._limit = open_page, limit
        self._pages: list[HeldPage] = []
        self._idle: list[HeldPage] = []
        self._opening = 0
        self._turns = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def page(self, messages: Sequence[Message]) -> AsyncGenerator[HeldPage]:
        """The page whose chat the messages continue, or a page for a new chat."""
        async with self._turns:
            held = self._found(messages) or await self._opened()
            try:
                yield held
            finally:
                self._release(held)

    def forget_declarations(self) -> int:
        """Forgets the declarations of all pages; returns how many pages had some."""
        had = [held for held in self._pages if held.declared is not None]
        for held in had:
            held.declared = None
        return len(had)

    def _found(self, messages: Sequence[Message]) -> HeldPage | None:
        self._idle = [held for held in self._idle if not held.chat.page.is_closed()]
        self._pages = [held for held in self._pages if not held.chat.page.is_closed()]
        for held in self._idle:
            if held.live and not _needs_new_chat(messages, held.live):
                return self._taken(held)
        unused = [held for held in self._idle if held.live is None]
        if not unused and len(self._pages) + self._opening < self._limit:
            return None
        return self._taken(min(unused or self._idle, key=lambda held: held.used_at))

    def _taken(self, held: HeldPage) -> HeldPage:
        self._idle.remove(held)
        return held

    async def _opened(self) -> HeldPage:
        self._opening += 1
        try:
            held = HeldPage(await self._open_page())
        finally:
            self._opening -= 1
        self._pages.append(held)
        return held

    def _release(self, held: HeldPage) -> None:
        held.used_at = monotonic()
        self._idle.append(held)


def _needs_new_chat(messages: Sequence[Message], live: tuple[SaidTurn, ...]) -> bool:
    plan = plan_of(messages, live)
    return isinstance(plan, PagePrompt) and plan.new_chat
