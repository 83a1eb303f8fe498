"""A page or a browser that does not answer, simulated without a browser."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error

from windlass import Message, ModelError
from windlass.model import ModelRequest
from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.config import BrowserConfig
from windlass.models.aistudio.page import ChatPage
from windlass.models.retry import Retry, Timeouts
from windlass.settings import FunctionCallingSettings

ASKED = ModelRequest([Message.user("Hi")])


class StuckPage:
    """A page whose operations never end."""

    def __init__(self, *, except_for: str = "") -> None:
        self._quick = except_for

    def set_default_timeout(self, _: float) -> None: ...

    def on(self, *_: object) -> None: ...

    def is_closed(self) -> bool:
        return False

    def locator(self, _: str) -> "StuckPage":
        return self

    async def expose_binding(self, *_: object) -> None: ...

    async def evaluate(self, script: str, *_: object) -> None:
        if self._quick not in script:
            await asyncio.Event().wait()

    def __getattr__(self, _: str) -> Any:
        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return never


class Source:
    """A browser that gives such a page, or fails to."""

    def __init__(self, page: StuckPage | Error) -> None:
        self._page = page

    async def new_page(self) -> Any:
        if isinstance(self._page, Error):
            raise self._page
        return self._page

    async def aclose(self) -> None: ...


def model_with(page: StuckPage | Error, snapshots: Path | None = None) -> AIStudioModel:
    return AIStudioModel(
        "default",
        config=BrowserConfig("http://localhost/", Path("unused"), None, snapshots=snapshots),
        settings=FunctionCallingSettings(ui_timeout_ms=10),
        retry=Retry(attempts=1),
        timeouts=Timeouts(read=0.01),
        browser=lambda _: Source(page),
    )


async def drained(model: AIStudioModel) -> None:
    async with model.stream(ASKED) as events:
        async for _ in events:
            pass


async def test_a_page_that_hangs_fails_the_request_after_its_timeout(tmp_path: Path) -> None:
    """Neither the snapshot of the failure nor the pressing of Stop waits for it."""
    with pytest.raises(ModelError, match="has not become ready for") as caught:
        await drained(model_with(StuckPage(), snapshots=tmp_path))
    assert caught.value.status == 504


async def test_a_page_that_hangs_does_not_block_its_watchers() -> None:
    page: Any = StuckPage(except_for="page.watch(options)")
    chat = ChatPage(page, "http://localhost/", 10)
    async with chat.watch() as watch:
        assert await watch.next(0.0) is None


async def test_a_browser_that_gives_no_page_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelError, match="cannot open a page: it crashed") as caught:
        await drained(model_with(Error("it crashed\nat great length")))
    assert caught.value.status == 503
