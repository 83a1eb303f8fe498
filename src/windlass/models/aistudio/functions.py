"""`FunctionController`: the page's function-calling switch and its editor for declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.errors import ModelError
from windlass.models.aistudio.elements import Elements, page_failed, unavailable

if TYPE_CHECKING:
    from playwright.async_api import Locator


_EXCLUDING = ("search_toggle", "url_toggle", "code_toggle")
"""The page's own tools. Function calling cannot be on together with one of them."""


class FunctionController:
    """Operates the function-calling controls. Every method raises `ModelError` if it fails.

    A failure of the controls is `NativeModeUnavailable`, retryable if it may be temporary; a
    declaration that the editor refuses has status 400.
    """

    def __init__(self, elements: Elements) -> None:
        self._elements = elements

    async def open_panel(self) -> None:
        """Opens the tools panel, which contains all switches."""
        if await self._elements.shown("function_row") is not None:
            return
        panel = await self._elements.shown("tools_panel")
        if panel is not None and not await self._is_expanded(panel):
            await self._elements.click("tools_panel")

    async def is_enabled(self) -> bool:
        """Whether function calling is on; False if the page has no switch."""
        await self.open_panel()
        toggle = await self._elements.shown("function_toggle")
        return toggle is not None and await _is_on(toggle)

    async def enable(self) -> None:
        """Switches function calling on, after switching off the tools that exclude it."""
        await self.open_panel()
        for name in _EXCLUDING:
            await self._switch(name, on=False)
        try:
            await self._elements.find("function_row")
        except ModelError:
            raise unavailable("the page shows no function calling for this model") from None
        if not await self._switch("function_toggle", on=True):
            raise unavailable("the switch for function calling was not found")

    async def disable(self) -> None:
        """Switches function calling off, if the page has it."""
        await self.open_panel()
        await self._switch("function_toggle", on=False)

    async def set_search(self, on: bool) -> None:
        """Switches the page's Google Search. Raises `ModelError` if it is needed but missing."""
        await self.open_panel()
        if not await self._switch("search_toggle", on=on) and on:
            raise page_failed("the page shows no Google Search for this model", retryable=False)

    async def open_editor(self) -> None:
        """Opens the dialog at the JSON tab."""
        await self._elements.click("edit_button")
        await self._elements.find("dialog")
        await self._open_code_tab()

    async def set_declarations(self, text: str) -> None:
        """Replaces the declarations in the editor."""
        try:
            await self.open_editor()
            editor = await self._elements.find("editor")
            await self._elements.fill(editor, text)
            await self._elements.click("save_button")
        except ModelError as problem:
            await self.close_dialog()
            raise unavailable(problem.message, passing=True) from None
        # The page shows an error at once, but saving can take time.
        said = await self._editor_error()
        if not said and await self._elements.disappears("dialog"):
            return
        said = said or await self._editor_error()
        await self.close_dialog()
        if not said:
            raise unavailable("the editor of function declarations did not close", passing=True)
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
        if await self._elements.shown("dialog") is None:
            return
        await self._elements.page.keyboard.press("Escape")
        if not await self._elements.disappears("dialog"):
            await self._elements.click("close_button")

    async def _open_code_tab(self) -> None:
        tab = await self._elements.shown("code_tab")
        if tab is not None and await tab.get_attribute("aria-selected") != "true":
            await self._elements.click("code_tab")

    async def _editor_error(self) -> str:
        return await self._elements.text("editor_error")

    async def _switch(self, name: str, *, on: bool) -> bool:
        """Sets a switch and verifies it. False if there is none. Raises if it does not move."""
        toggle = await self._elements.shown(name)
        if toggle is None:
            return False
        if await _is_on(toggle) != on:
            try:
                await self._elements.click(name)
            except ModelError as problem:
                raise unavailable(problem.message, passing=True) from None
            moved = self._elements.page.locator(f'[aria-checked="{str(on).lower()}"]')
            if not await self._elements.appears(toggle.and_(moved)):
                raise unavailable(f"the switch {name!r} does not move", passing=True)
        return True

    async def _is_expanded(self, panel: Locator) -> bool:
        around = panel.locator("xpath=../..")
        return "expanded" in (await around.get_attribute("class") or "").split()


async def _is_on(toggle: Locator) -> bool:
    return await toggle.get_attribute("aria-checked") == "true"
