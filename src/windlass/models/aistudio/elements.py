"""Finding, filling and clicking elements of the page, and the script that observes a turn.

The observer starts before the prompt is sent, so that it misses nothing. It reads only new turns:
the page keeps earlier ones without their content, and a timer in each turn's footer never stops. It
is a mutation observer; nothing is polled.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from windlass.errors import ModelError, NativeModeUnavailable
from windlass.models.aistudio.selectors import VERSION, selectors_of

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Locator, Page


def unavailable(reason: str, *, passing: bool = False) -> NativeModeUnavailable:
    """The error if function calling cannot be set up; `passing` means that a retry can help."""
    problem = NativeModeUnavailable(reason, ModelError(reason, status=500))
    problem.retryable = passing
    return problem


def page_failed(reason: str, *, retryable: bool = True) -> ModelError:
    """The error if the page cannot be operated."""
    return ModelError(reason, status=503, retryable=retryable, code="page_failed")


class Elements:
    """Finds the elements of the table. `timeout` limits each operation, in milliseconds."""

    def __init__(self, page: Page, timeout: float) -> None:
        self.page, self.timeout = page, timeout
        page.set_default_timeout(timeout)

    @property
    def seconds(self) -> float:
        """The timeout in seconds, for operations that Playwright does not limit."""
        return self.timeout / 1000

    async def shown(self, name: str) -> Locator | None:
        """The element, if it is currently on the page."""
        for selector in selectors_of(name):
            found = self.page.locator(selector)
            if await found.count():
                return found.first
        return None

    async def matching(self, name: str) -> int | None:
        """The index of the first selector that currently matches."""
        for number, selector in enumerate(selectors_of(name)):
            if await self.page.locator(selector).count():
                return number
        return None

    async def find(self, name: str) -> Locator:
        """Waits for the element. Raises `ModelError` if it does not appear."""
        if (found := await self.shown(name)) is not None:
            return found
        anything = self.page.locator(", ".join(selectors_of(name))).first
        if not await self.appears(anything):
            raise page_failed(
                f"{words_for(name)} is not on the page (selectors of {VERSION});"
                " `windlass aistudio doctor` lists all missing elements"
            )
        return await self.shown(name) or anything

    async def disappears(self, name: str, *, timeout: float | None = None) -> bool:
        """Waits until the element disappears; False after the timeout. 0 means no timeout."""
        from playwright.async_api import TimeoutError as Late

        anything = self.page.locator(", ".join(selectors_of(name))).first
        try:
            await anything.wait_for(
                state="hidden", timeout=self.timeout if timeout is None else timeout
            )
        except Late:
            return False
        return True

    async def appears(self, wanted: Locator) -> bool:
        """Waits until the element appears; False after the timeout."""
        from playwright.async_api import TimeoutError as Late

        try:
            await wanted.wait_for(state="attached", timeout=self.timeout)
        except Late:
            return False
        return True

    async def text(self, name: str) -> str:
        """The text of the element, if it is currently on the page; otherwise empty."""
        for selector in selectors_of(name):
            for text in await self.page.locator(selector).all_inner_texts():
                if words := " ".join(text.split()):
                    return words
        return ""

    async def fill(self, field: Locator | ElementHandle, text: str) -> None:
        """Fills a field. Raises `ModelError` if it accepts no text."""
        from playwright.async_api import TimeoutError as Late

        try:
            await field.fill(text, timeout=self.timeout)
        except Late:
            raise page_failed("a field of the page accepts no text") from None

    async def click(self, name: str) -> None:
        """Clicks the element. Raises `ModelError` if it does not appear or cannot be clicked."""
        from playwright.async_api import TimeoutError as Late

        button = await self.find(name)
        try:
            await button.click(timeout=self.timeout)
        except Late:
            raise page_failed(f"{words_for(name)} cannot be clicked: something covers it") from None


def words_for(name: str) -> str:
    return f"the element {name!r}"


REPORT = "windlassReport"
"""The function that the observer calls with its reports."""

_READ = (
    "generating",
    "turn",
    "user_turn",
    "chunk",
    "text",
    "thought",
    "call",
    "call_name",
    "call_arguments",
    "toast",
    "callout",
    "model_error",
    "token_count",
    "icon",
)


def names_for_observer() -> dict[str, list[str]]:
    """The selectors that the observer uses."""
    return {name: list(selectors_of(name)) for name in _READ}


STOP = "() => { window.windlassWatch?.disconnect(); delete window.windlassWatch; }"

START = (Path(__file__).parent / "observer.js").read_text(encoding="utf-8")
