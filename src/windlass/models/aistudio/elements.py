"""Finding, filling and clicking elements of the page, by a script that runs in the page.

The script finds elements (`script/elements.js`), reads turns (`script/turns.js`), converts rendered
Markdown back (`script/markdown.js`), reports a turn while it changes (`script/observer.js`) and
waits for the effect of an action (`script/actions.js`). It is installed when it is first needed,
and again after each navigation.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from windlass.errors import ModelError, NativeModeUnavailable
from windlass.models.aistudio.selectors import VERSION, selectors_of, table

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, JSHandle, Page

log = logging.getLogger("windlass.models.aistudio")

REPORT = "windlassReport"
"""The function that the observer calls with its reports."""

_SCRIPT = "\n".join(
    (Path(__file__).parent / "script" / f"{name}.js").read_text(encoding="utf-8")
    for name in ("elements", "markdown", "turns", "observer", "actions")
)
_NAMES = (
    "find, until, whyNot, coverOf, frontOf, closerIn, stateOf, describe, all, allBy, isVisible,"
    " plainText, tidy, still, ROLES, turnsNow, noteIdle, watch, unwatch, answerFields, settled,"
    " discarded, taken, idle, uncovered"
)
_INSTALL = (
    f"(table) => {{ window.windlassPage ??= (() => {{ {_SCRIPT}\nreturn {{ {_NAMES} }}; }})(); }}"
)
_MISSING = "windlass: the script is not installed"


def unavailable(reason: str, *, passing: bool = False) -> NativeModeUnavailable:
    """The error if function calling cannot be set up; `passing` means that a retry can help."""
    problem = NativeModeUnavailable(reason, ModelError(reason, status=500))
    problem.retryable = passing
    return problem


def page_failed(reason: str, *, retryable: bool = True) -> ModelError:
    """The error if the page cannot be operated."""
    return ModelError(reason, status=503, retryable=retryable, code="page_failed")


def missing(name: str, why: str = "") -> str:
    """The text of the error for an element that is not found."""
    return (
        f"{words_for(name)} is not on the page ({why or 'no selector, name or icon matches'};"
        f" first selector: {selectors_of(name)[0]}; selectors of {VERSION});"
        " `windlass aistudio doctor` lists all missing elements"
    )


class Found(Struct, frozen=True):
    """How an element was found: its score, the ways, and whether its first selector is one."""

    score: int
    ways: tuple[str, ...]
    is_first: bool


class Elements:
    """Finds the elements of the table. `timeout` limits each operation, in milliseconds."""

    def __init__(self, page: Page, timeout: float) -> None:
        self.page, self.timeout = page, timeout
        self.last = "prompt"
        """The element of the last operation, for the error of a page that hangs."""
        page.set_default_timeout(timeout)

    @property
    def seconds(self) -> float:
        """The timeout in seconds, for operations that Playwright does not limit."""
        return self.timeout / 1000

    async def run(self, code: str, argument: Any = None) -> Any:
        """Evaluates `(page, argument) => ...` in the page; `page` is the installed script."""
        from playwright.async_api import Error

        try:
            result = await self.page.evaluate(_guarded(code), argument)
        except Error as error:
            if "navigat" not in error.message:
                raise
            await self.page.wait_for_load_state()  # loaded again meanwhile
            result = _MISSING
        if result == _MISSING:
            await self.page.evaluate(_INSTALL, table())
            result = await self.page.evaluate(_guarded(code), argument)
        return result

    async def element(self, code: str, argument: Any = None) -> ElementHandle | None:
        """The element that `(page, argument) => ...` returns."""
        return (await self._handle(code, argument)).as_element()

    async def elements(self, code: str, argument: Any = None) -> list[ElementHandle | None]:
        """The elements of the list that `(page, argument) => ...` returns."""
        found = await self._handle(code, argument)
        properties = await found.get_properties()
        return [properties[key].as_element() for key in sorted(properties, key=int)]

    async def _handle(self, code: str, argument: Any) -> JSHandle:
        await self.run("() => null")
        return await self.page.evaluate_handle(_guarded(code), argument)

    async def shown(self, name: str) -> ElementHandle | None:
        """The element, if it is currently on the page."""
        return await self.element("(page, name) => page.find(name)?.node ?? null", name)

    async def is_shown(self, name: str) -> bool:
        return await self.run("(page, name) => page.find(name) !== null", name)

    async def found(self, name: str) -> Found | None:
        """How the element is found, if it is currently on the page."""
        found: dict[str, Any] | None = await self.run(
            "(page, name) => { const found = page.find(name);"
            " return found && { score: found.score, ways: found.ways, isFirst: found.isFirst }; }",
            name,
        )
        if found is None:
            return None
        return Found(found["score"], tuple(found["ways"]), found["isFirst"])

    async def matches(self, name: str) -> str | None:
        """The first selector of an element of turns that matches; None if none does."""
        return await self.run(
            "(page, selectors) => selectors.find((each) => page.allBy(each, document).length)"
            " ?? null",
            list(selectors_of(name)),
        )

    async def find(self, name: str) -> ElementHandle:
        """Waits for the element. Raises `ModelError` if it does not appear."""
        self.last = name
        if not await self.appears(name):
            raise page_failed(missing(name, await self.why_missing(name)))
        found = await self.shown(name)
        if found is None:  # the page changed again
            raise page_failed(missing(name))
        return found

    async def why_missing(self, name: str) -> str:
        return await self.run("(page, name) => page.whyNot(name)", name)

    async def appears(self, name: str) -> bool:
        """Waits until the element appears; False after the timeout."""
        return await self._becomes(name, True, self.timeout)

    async def disappears(self, name: str) -> bool:
        """Waits until the element disappears; False after the timeout."""
        return await self._becomes(name, False, self.timeout)

    async def _becomes(self, name: str, wanted: bool, timeout: float) -> bool:
        code = "(page, [name, wanted, ms]) => page.until(name, wanted, ms)"
        return await self.run(code, [name, wanted, timeout])

    async def is_idle(self) -> bool:
        """Waits until the page no longer generates, without a time limit."""
        return await self.run("(page) => page.idle()")

    async def text(self, name: str) -> str:
        """The text of the element, if it is currently on the page; otherwise empty."""
        return await self.run(
            "(page, name) => page.all(name, document).filter(page.isVisible)"
            ".map((node) => page.tidy(page.plainText(node))).find(Boolean) ?? ''",
            name,
        )

    async def fill(self, field: ElementHandle, text: str, name: str = "field") -> None:
        """Fills a field. Raises `ModelError` if it does not keep the text."""
        from playwright.async_api import Error

        try:
            await field.fill(text, timeout=self.timeout)
            kept = await self.value(field)
        except Error as error:
            raise page_failed(
                f"{words_for(name)} accepts no text: {error.message.splitlines()[0]}"
            ) from None
        if "".join(kept.split()) != "".join(text.split()):
            raise page_failed(f"{words_for(name)} did not keep the text that was entered")

    async def value(self, field: ElementHandle) -> str:
        """The text in a field or an editable element."""
        return await field.evaluate("(node) => node.value ?? node.innerText")

    async def click(self, name: str) -> None:
        """Clicks the element. Raises `ModelError` if it does not appear or cannot be clicked."""
        from playwright.async_api import Error

        button = await self.find(name)
        try:
            await button.click(timeout=self.timeout / 2)
        except Error:
            # Drawn again, or covered by a dialog that has opened meanwhile.
            button = await self.find(name)
            await self.uncover(button)
            try:
                await button.click(timeout=self.timeout / 2)
            except Error as error:
                cover = await self.covering(button)
                reason = f"{cover} covers it" if cover else error.message.splitlines()[0]
                raise page_failed(f"{words_for(name)} cannot be clicked: {reason}") from None

    async def covering(self, element: ElementHandle) -> str:
        """What is in front of the element: its tag; empty if nothing is."""
        return await self.run(
            "(page, node) => { const cover = page.coverOf(node);"
            " return cover ? page.describe(page.frontOf(cover)) : ''; }",
            element,
        )

    async def uncover(self, element: ElementHandle) -> None:
        """Closes what is in front of the element, with Escape or a button that only closes.

        Raises `ModelError`, which names what covers the page, if it stays.
        """
        from playwright.async_api import Error

        if not (cover := await self.covering(element)):
            return
        log.info("closing %s, which covers the page", cover)
        await self.page.keyboard.press("Escape")
        if not await self._is_covered(element):
            return
        closer = await self.element(
            "(page, node) => { const cover = page.coverOf(node);"
            " return cover ? page.closerIn(page.frontOf(cover)) : null; }",
            element,
        )
        if closer is not None:
            try:
                await closer.click(timeout=self.timeout / 2)
            except Error as error:
                log.info("cannot close %s: %s", cover, error.message.splitlines()[0])
        if await self._is_covered(element):
            raise page_failed(f"a dialog covers the page and cannot be closed: {cover}")

    async def _is_covered(self, element: ElementHandle) -> bool:
        """Whether something is still in front of it, after the page had time to close it."""
        return not await self.run(
            "(page, [node, limit]) => page.uncovered(node, limit)",
            [element, min(1000.0, self.timeout)],
        )

    @asynccontextmanager
    async def no_driver_errors(self, what: str) -> AsyncGenerator[None]:
        """Turns an error of the browser's driver into one of the page."""
        from playwright.async_api import Error

        try:
            yield
        except Error as error:
            raise page_failed(f"{what}: {error.message.splitlines()[0]}") from None


def words_for(name: str) -> str:
    return f"the element {name!r}"


def _guarded(code: str) -> str:
    return (
        f"(argument) => window.windlassPage ? ({code})(window.windlassPage, argument)"
        f" : {_MISSING!r}"
    )
