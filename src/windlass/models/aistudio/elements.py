"""Elements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from windlass.errors import ModelError, NativeModeUnavailable
from windlass.models.aistudio.selectors import VERSION, selectors_of

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Locator, Page


def unavailable(reason: str, *, passing: bool = False) -> NativeModeUnavailable:
    """Function calling cannot be set up on the page; `passing` says that it is worth a retry."""
    problem = NativeModeUnavailable(reason, ModelError(reason, status=500))
    problem.retryable = passing
    return problem


def page_failed(reason: str, *, retryable: bool = True) -> ModelError:
    """The page cannot be operated, whatever the request."""
    return ModelError(reason, status=503, retryable=retryable, code="page_failed")


class Elements:
    """Finds what the table names. `timeout` is how long an operation may take, in milliseconds."""

    def __init__(self, page: Page, timeout: float) -> None:
        self.page, self.timeout = page, timeout
        page.set_default_timeout(timeout)

    @property
    def seconds(self) -> float:
        """The same time, for what Playwright would wait for without an end."""
        return self.timeout / 1000

    async def shown(self, name: str) -> Locator | None:
        """The element if it is on the page now."""
        for selector in selectors_of(name):
            found = self.page.locator(selector)
            if await found.count():
                return found.first
        return None

    async def matching(self, name: str) -> int | None:
        """The place in the table of the selector that finds the element now."""
        for number, selector in enumerate(selectors_of(name)):
            if await self.page.locator(selector).count():
                return number
        return None

    async def find(self, name: str) -> Locator:
        """The element, waited for. Raises `ModelError` if it does not come."""
        if (found := await self.shown(name)) is not None:
            return found
        anything = self.page.locator(", ".join(selectors_of(name))).first
        if not await self.comes(anything):
            raise page_failed(
                f"{words_for(name)} is not on the page (selectors of {VERSION});"
                " `windlass aistudio doctor` says what else is missing"
            )
        return await self.shown(name) or anything

    async def gone(self, name: str, *, timeout: float | None = None) -> bool:
        """Whether the element has left the page in time; a `timeout` of 0 is none."""
        from playwright.async_api import TimeoutError as Late

        anything = self.page.locator(", ".join(selectors_of(name))).first
        try:
            await anything.wait_for(
                state="hidden", timeout=self.timeout if timeout is None else timeout
            )
        except Late:
            return False
        return True

    async def comes(self, wanted: Locator) -> bool:
        """Whether it is on the page in time."""
        from playwright.async_api import TimeoutError as Late

        try:
            await wanted.wait_for(state="attached", timeout=self.timeout)
        except Late:
            return False
        return True

    async def text(self, name: str) -> str:
        """The words of the element, if it is on the page now and has any."""
        for selector in selectors_of(name):
            for text in await self.page.locator(selector).all_inner_texts():
                if words := " ".join(text.split()):
                    return words
        return ""

    async def fill(self, field: Locator | ElementHandle, text: str) -> None:
        """Raises `ModelError` if the field takes no text."""
        from playwright.async_api import TimeoutError as Late

        try:
            await field.fill(text, timeout=self.timeout)
        except Late:
            raise page_failed("a field of the page takes no text") from None

    async def click(self, name: str) -> None:
        """Raises `ModelError` if the element does not come or cannot be clicked."""
        from playwright.async_api import TimeoutError as Late

        button = await self.find(name)
        try:
            await button.click(timeout=self.timeout)
        except Late:
            raise page_failed(
                f"{words_for(name)} cannot be clicked: something is in its way"
            ) from None


def words_for(name: str) -> str:
    return f"the element {name!r}"


REPORT = "windlassReport"
"""The function that the page is given to report with."""

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
    """The selectors that the script reads with."""
    return {name: list(selectors_of(name)) for name in _READ}


STOP = "() => { window.windlassWatch?.disconnect(); delete window.windlassWatch; }"

START = (Path(__file__).parent / "observer.js").read_text(encoding="utf-8")
