"""Holds the table of selectors against a page: what is found, by which selector, what is not."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from msgspec import Struct

from windlass.errors import ModelError
from windlass.models.aistudio.elements import Elements
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.selectors import ELEMENTS, Shown, selectors_of

_PING = '[{"name":"ping","description":"Answers the caller."}]'
_ASK = "Call the function ping now."
_ASK_SECONDS = 60.0
_OPTIONAL = ("search_toggle", "url_toggle", "code_toggle", "model_name")
"""Not every model has them."""
_CALL = ("call", "call_name", "call_arguments", "call_answer", "call_send")

State = Literal["ok", "fallback", "missing", "not shown"]


class Finding(Struct, frozen=True):
    """One element: found by its first selector, by a later one, or not."""

    element: str
    state: State
    selector: str | None = None


async def examine(chat: ChatPage, *, ask: bool = False) -> list[Finding]:
    """Looks for everything that can be seen without a prompt; with `ask`, also at a call.

    Raises `ModelError` if the page cannot be opened or nobody is signed in.
    """
    await chat.load()
    await chat.dismiss()
    findings = await _all(chat.elements, "always")
    await _tried(chat.functions.open_panel())
    findings += await _all(chat.elements, "settings")
    findings += await _dialog(chat)
    if ask:
        findings += await _chat(chat)
    await _tried(chat.functions.disable())
    known = {finding.element for finding in findings}
    rest = [name for name in ELEMENTS if name not in known]
    return findings + [await _look(chat.elements, name, wanted=False) for name in rest]


async def _dialog(chat: ChatPage) -> list[Finding]:
    """Opens the editor, looks, and closes it again."""
    await _tried(chat.functions.enable())
    if await _tried(chat.functions.open_editor()):
        findings = await _all(chat.elements, "dialog")
        await _tried(chat.functions.close_dialog())
        return findings
    return [Finding(name, "not shown") for name, each in ELEMENTS.items() if each.shown == "dialog"]


async def _chat(chat: ChatPage) -> list[Finding]:
    """Has the model call a function, which costs a request, and looks at what the page shows."""
    if not await _tried(chat.functions.set_declarations(_PING)):
        return []
    async with chat.watch() as watch:
        await chat.send(_ASK)
        while (snapshot := await watch.next(_ASK_SECONDS)) and (
            snapshot.busy or not snapshot.begun
        ):
            pass
    findings = await _all(chat.elements, "chat")
    return findings + [await _look(chat.elements, name, wanted=True) for name in _CALL]


async def _all(elements: Elements, shown: Shown) -> list[Finding]:
    names = [name for name, element in ELEMENTS.items() if element.shown == shown]
    return [await _look(elements, name, wanted=name not in _OPTIONAL) for name in names]


async def _look(elements: Elements, name: str, *, wanted: bool) -> Finding:
    number = await elements.matching(name)
    if number is None:
        return Finding(name, "missing" if wanted else "not shown")
    return Finding(name, "fallback" if number else "ok", selectors_of(name)[number])


async def _tried(doing: Awaitable[None]) -> bool:
    try:
        await doing
    except ModelError:
        return False
    return True
