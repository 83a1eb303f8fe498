"""`AIStudioModel`: the web page of Google AI Studio as a `Model`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from windlass.content import paired
from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.aistudio.browser import PagePool, SharedBrowser
from windlass.models.aistudio.config import BrowserConfig, browser_config, check_playwright
from windlass.models.aistudio.conversation import Orchestrator, PageConversation
from windlass.models.aistudio.elements import page_failed
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.schema import SchemaConverter
from windlass.models.aistudio.turn import Patience
from windlass.models.aistudio.wire import check_request, offered_functions
from windlass.models.keys import Key
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts, Waiting
from windlass.settings import FunctionCallingSettings, function_calling_settings

if TYPE_CHECKING:
    from playwright.async_api import Page


log = logging.getLogger("windlass.models.aistudio")


class PageSource(Protocol):
    """Where pages come from: a browser."""

    async def new_page(self) -> Page: ...

    async def aclose(self) -> None: ...


class AIStudioModel:
    """A model behind AI Studio's web page, in the user's browser profile.

    `model` is the page's name for a model, or `default` for the one that the page selects.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = DEFAULT_RETRY,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        waiting: Callable[[Retry], Waiting] = Waiting,
        config: BrowserConfig | None = None,
        settings: FunctionCallingSettings | None = None,
        patience: Patience | None = None,
        browser: Callable[[BrowserConfig], PageSource] = SharedBrowser,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `ConfigError` if Playwright or the configured browser is not installed."""
        if api_key is not None or headers is not None:
            raise ConfigError(
                "aistudio/ has no api_key or headers: it uses a browser profile in which you have"
                " signed in (`windlass aistudio login`)"
            )
        check_playwright()
        self._model = model
        self._config = config or browser_config(os.environ, url=base_url)
        self._settings = settings or function_calling_settings(os.environ)
        self._converter = SchemaConverter()
        self._patience = patience or Patience(late_call=self._config.late_call)
        self._timeouts = timeouts
        self._waiting = partial(waiting, retry)
        self.orchestrator = Orchestrator(model, self._settings, waiting=waiting, clock=clock)
        self._make_browser = browser
        self._browser: PageSource | None = None
        self._pool: PagePool | None = None

    structured_output = "never"

    @property
    def name(self) -> str:
        return f"aistudio/{self._model}"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))

    def clear_cache(self) -> int:
        """Forgets which functions the pages have: the next request declares its own again.

        Returns how many pages had declarations. Active requests are not affected.
        """
        cleared = self._pool.forget_declarations() if self._pool else 0
        if self._settings.debug_logs:
            log.info("cache cleared on request: %d pages had declarations", cleared)
        return cleared

    async def aclose(self) -> None:
        """Closes the browser."""
        browser, self._browser, self._pool = self._browser, None, None
        if browser is not None:
            await browser.aclose()

    def __repr__(self) -> str:
        return f"AIStudioModel({self._model!r})"

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of a turn. A failed attempt is retried only if it yielded no event."""
        request = replace(request, messages=paired(request.messages))
        check_request(request)
        declarations = self._converter.convert_tools(offered_functions(request))
        waiting = self._waiting()
        while True:
            said = False
            try:
                async with self._pages().page(request.messages) as held:
                    conversation = PageConversation(
                        held,
                        self.orchestrator,
                        self._config.snapshots,
                        patience=self._patience,
                        silence=self._timeouts.read,
                        tries=max(1, self._settings.native_retry_count),
                    )
                    async with aclosing(conversation.events(request, declarations)) as events:
                        async for event in events:
                            said = True
                            yield event
                return
            except ModelError as problem:
                if said:
                    raise
                await waiting.after(problem)

    def _pages(self) -> PagePool:
        if self._pool is None:
            self._browser = self._make_browser(self._config)
            self._pool = PagePool(self._open_page, self._config.pages)
        return self._pool

    async def _open_page(self) -> ChatPage:
        from playwright.async_api import Error

        assert self._browser is not None
        try:
            page = await self._browser.new_page()
            chat = ChatPage(page, self._config.url, self._settings.ui_timeout_ms)
            await chat.prepare()
        except Error as error:
            reason = error.message.splitlines()[0]
            raise page_failed(f"the browser cannot open a page: {reason}") from None
        return chat
