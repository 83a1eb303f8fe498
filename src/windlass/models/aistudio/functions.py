"""`FunctionController`: the page's function-calling switch and its editor for declarations."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

from windlass.errors import ModelError
from windlass.models.aistudio.elements import Elements, missing, page_failed, unavailable

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle

log = logging.getLogger("windlass.models.aistudio")

_EXCLUDING = ("search_toggle", "url_toggle", "code_toggle")
"""The page's own tools. Function calling cannot be on together with one of them."""

_REDRAWN_SECONDS = 0.3
"""How long a switch that was drawn again may take to show the effect of the click before."""


class FunctionController:
    """Operates the function-calling controls. Every method raises `ModelError` if it fails.

    A failure of the controls is `NativeModeUnavailable`, retryable if it may be temporary; a
    declaration that the editor refuses has status 400. `debug` logs each step.
    """

    def __init__(self, elements: Elements, *, debug: bool = False) -> None:
        self._elements = elements
        self.debug = debug

    async def open_panel(self) -> None:
        """Opens the tools panel, which contains all switches."""
        if await self._has_controls():
            return
        if await self._elements.is_shown("tools_panel"):
            self._log("opening the tools panel")
            await self._elements.click("tools_panel")
            await self._elements.appears("function_toggle")

    async def _has_controls(self) -> bool:
        return await self._elements.is_shown("function_toggle") or await self._elements.is_shown(
            "search_toggle"
        )

    async def is_enabled(self) -> bool:
        """Whether function calling is on; False if the page has no switch."""
        await self.open_panel()
        toggle = await self._elements.shown("function_toggle")
        is_on = toggle is not None and await self._is_on(toggle)
        self._log("the switch 'function_toggle' is %s", "on" if is_on else "off")
        return is_on

    async def enable(self) -> None:
        """Switches function calling on, after switching off the tools that exclude it."""
        await self.open_panel()
        for name in _EXCLUDING:
            await self._switch(name, on=False)
        if not await self._elements.appears("function_toggle"):
            why = await self._elements.why_missing("function_toggle")
            raise unavailable(
                "the page shows no function calling for this model, or its switch has changed:"
                f" {missing('function_toggle', why)}"
            )
        await self._switch("function_toggle", on=True)

    async def disable(self) -> None:
        """Switches function calling off, if the page has it."""
        await self.open_panel()
        await self._switch("function_toggle", on=False)

    async def set_search(self, on: bool) -> None:
        """Switches the page's Google Search. Raises `ModelError` if it is needed but missing."""
        await self.open_panel()
        if not await self._switch("search_toggle", on=on) and on:
            raise page_failed(
                f"the page shows no Google Search for this model: {missing('search_toggle')}",
                retryable=False,
            )

    async def open_editor(self) -> None:
        """Opens the dialog at the JSON tab."""
        await self._elements.click("edit_button")
        if not await self._elements.appears("dialog"):  # late, or never
            why = await self._elements.why_missing("dialog")
            raise page_failed(
                f"the editor of function declarations did not open: {missing('dialog', why)}"
            )
        await self._open_code_tab()

    async def set_declarations(self, text: str) -> None:
        """Replaces the declarations in the editor, and checks that the page has kept them."""
        try:
            await self.open_editor()
            editor = await self._elements.find("editor")
            await self._elements.fill(editor, text, "editor")
            save = await self._elements.found("save_button")
            self._log("editor: saving %d characters of declarations", len(text))
            await self._elements.click("save_button")
        except ModelError as problem:
            await self.close_dialog()
            raise unavailable(problem.message, passing=True) from None
        # The page shows an error at once, but saving can take time.
        said = await self._editor_error()
        if not said and await self._elements.disappears("dialog"):
            if save is None or not save.is_first:
                await self._check_saved(text)
            return
        said = said or await self._editor_error()
        await self.close_dialog()
        if not said:
            raise unavailable(
                "the editor of function declarations did not close: the element 'dialog' is still"
                " on the page after the element 'save_button' was clicked"
                f" ({'; '.join(save.ways) if save else 'not found'})",
                passing=True,
            )
        raise ModelError(
            f"invalid schema for function declarations: the page's editor reports: {said}",
            status=400,
            code="invalid_tool",
        )

    async def clear_declarations(self) -> None:
        """Removes all declarations and switches function calling off."""
        if await self.is_enabled():
            await self.set_declarations("[]")
            await self.disable()

    async def close_dialog(self) -> None:
        """Closes the editor, if it is open, without saving."""
        if not await self._elements.is_shown("dialog"):
            return
        await self._elements.page.keyboard.press("Escape")
        if not await self._elements.disappears("dialog"):
            await self._elements.click("close_button")

    async def _check_saved(self, text: str) -> None:
        """Opens the editor again and compares, because the save button was only likely one."""
        try:
            await self.open_editor()
            kept = await self._elements.value(await self._elements.find("editor"))
        except ModelError as problem:
            raise unavailable(problem.message, passing=True) from None
        finally:
            await self.close_dialog()
        if _decoded(kept) != _decoded(text):
            raise unavailable(
                "the editor did not keep the function declarations: the element 'save_button' was"
                " not the button that saves"
            )

    async def _open_code_tab(self) -> None:
        """Opens the tab with the text editor: the one with its name, or each in turn."""
        if await self._elements.is_shown("code_tab"):
            tab = await self._elements.shown("code_tab")
            if tab is not None and await tab.get_attribute("aria-selected") != "true":
                await self._elements.click("code_tab")
            return
        count: int = await self._elements.run(
            "(page) => page.allBy(page.ROLES.tab, page.find('dialog')?.node ?? document).length"
        )
        for number in range(count):
            if await self._elements.is_shown("editor"):
                return
            tab = await self._elements.element(
                "(page, number) => page.allBy(page.ROLES.tab, page.find('dialog').node)[number]",
                number,
            )
            if tab is not None:
                await tab.click(timeout=self._elements.timeout)

    async def _editor_error(self) -> str:
        return await self._elements.text("editor_error")

    async def _switch(self, name: str, *, on: bool) -> bool:
        """Sets a switch and verifies it. False if there is none. Raises if it does not move."""
        toggle = await self._elements.shown(name)
        if toggle is None:
            return False
        if await self._is_on(toggle, name) == on:
            return True
        self._log("switching %r %s", name, "on" if on else "off")
        await self._click_switch(name)
        clock = asyncio.get_running_loop().time
        deadline, moved_on = clock() + self._elements.seconds, clock()
        while (now := await self._elements.shown(name)) is None or (
            await self._is_on(now, name) != on
        ):
            if clock() > deadline:
                raise unavailable(f"the switch {name!r} does not move", passing=True)
            if await toggle.evaluate("(node) => node.isConnected"):
                moved_on = clock()
            elif now is not None and clock() - moved_on > _REDRAWN_SECONDS:
                # The page was drawn again after the click, which had no effect.
                toggle = now
                await self._click_switch(name)
            await asyncio.sleep(0.03)
        return True

    async def _click_switch(self, name: str) -> None:
        try:
            await self._elements.click(name)
        except ModelError as problem:
            raise unavailable(problem.message, passing=True) from None

    async def _is_on(self, toggle: ElementHandle, name: str = "function_toggle") -> bool:
        is_on: bool | None = await self._elements.run("(page, node) => page.stateOf(node)", toggle)
        if is_on is None:
            raise unavailable(
                f"the switch {name!r} does not show whether it is on: it has neither aria-checked"
                " nor aria-pressed"
            )
        return is_on

    def _log(self, message: str, *values: object) -> None:
        if self.debug:
            log.info(message, *values)


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()
