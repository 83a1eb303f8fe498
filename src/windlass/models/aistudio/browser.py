"""The browser of a profile and its pages."""

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
from windlass.errors import ConfigError
from windlass.models.aistudio.config import INSTALL_BROWSER, BrowserConfig
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.wire import PagePrompt, SaidTurn, plan_of

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Playwright


_NEW_WINDOW = {"url": "about:blank", "newWindow": True}
_open: dict[tuple[asyncio.AbstractEventLoop, Path], Browser] = {}
"""Those that are in use: a browser belongs to an event loop."""


class SharedBrowser:
    """A model's pages in the browser of their profile, which the last one of its users closes."""

    def __init__(self, config: BrowserConfig) -> None:
        self._config = config
        self._browser: Browser | None = None
        self._pages: list[Page] = []

    async def new_page(self) -> Page:
        """A page of its own. Raises `ConfigError` as `Browser.new_page` does."""
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
        if not browser.users:  # while it was closed, somebody may have come
            _open.pop(self._key, None)

    @property
    def _key(self) -> tuple[asyncio.AbstractEventLoop, Path]:
        return asyncio.get_running_loop(), self._config.profile.absolute()


class Browser:
    """The browser of one profile. Nothing is disguised, and no password is seen: the user signs in
    by hand, and the profile remembers it."""

    def __init__(self, config: BrowserConfig) -> None:
        self._config = config
        self.users = 0
        self._opening = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._context: BrowserContext | None = None

    async def new_page(self) -> Page:
        """A page in a window of its own: in a tab behind another one, a page is drawn too rarely.

        Raises `ConfigError` if there is no browser, or another one has the profile.
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
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        try:
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
            raise ConfigError(_reason(config, str(error))) from None
        context.on("close", lambda _: self._gone(context))
        return context

    def _gone(self, context: BrowserContext) -> None:
        """The browser was closed or has crashed: the next page starts it again."""
        if self._context is context:
            self._context = None


def _has_sandbox() -> bool:
    """Chromium refuses to be root inside its sandbox."""
    return sys.platform == "win32" or os.geteuid() != 0


def _reason(config: BrowserConfig, said: str) -> str:
    if "ProcessSingleton" in said or "SingletonLock" in said or "already in use" in said:
        return (
            f"the browser profile {config.profile} is open in another browser: close it, or give"
            " each process its own with WINDLASS_AISTUDIO_PROFILE"
        )
    first = next((line for line in said.splitlines() if line.strip()), "no reason given")
    return f"the browser cannot be started ({first.strip()}); {INSTALL_BROWSER}"


class HeldPage:
    """A page and what is known of it."""

    def __init__(self, chat: ChatPage) -> None:
        self.chat = chat
        self.live: tuple[SaidTurn, ...] | None = None
        """What the chat on the page holds; None if nobody will go on with it."""
        self.declared: str | None = None
        """The digest of the declarations that the page's editor holds, if that is known."""
        self.declared_at = 0.0
        self.used_at = 0.0
        self.defaults: dict[str, str] = {}
        """What the settings' fields held before a request changed them."""

    def forget(self) -> None:
        """The page was changed in a way that is not known: nothing on it is relied upon."""
        self.live = self.declared = None


class PagePool:
    """Up to `limit` pages, opened when they are needed. Who finds none free waits in line."""

    def __init__(self, open_page: Callable[[], Awaitable[ChatPage]], limit: int) -> None:
        self._open_page, self._limit = open_page, limit
        self._pages: list[HeldPage] = []
        self._idle: list[HeldPage] = []
        self._opening = 0
        self._turns = asyncio.Semaphore(limit)

    @asynccontextmanager
    async def page(self, messages: Sequence[Message]) -> AsyncGenerator[HeldPage]:
        """The page whose chat the messages go on with, or one that is free for a new chat."""
        async with self._turns:
            held = self._found(messages) or await self._opened()
            try:
                yield held
            finally:
                self._give_back(held)

    def _found(self, messages: Sequence[Message]) -> HeldPage | None:
        self._idle = [held for held in self._idle if not held.chat.page.is_closed()]
        self._pages = [held for held in self._pages if not held.chat.page.is_closed()]
        for held in self._idle:
            if held.live and not _begins_anew(messages, held.live):
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

    def _give_back(self, held: HeldPage) -> None:
        held.used_at = monotonic()
        self._idle.append(held)


def _begins_anew(messages: Sequence[Message], live: tuple[SaidTurn, ...]) -> bool:
    plan = plan_of(messages, live)
    return isinstance(plan, PagePrompt) and plan.new_chat
