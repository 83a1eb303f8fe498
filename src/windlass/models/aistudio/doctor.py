"""`windlass aistudio doctor`: checks the selectors against the page."""

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
_ATTEMPTS = 3
_OPTIONAL = ("search_toggle", "url_toggle", "code_toggle", "model_name")
"""Elements that not every model has."""
_CALL = ("call", "call_name", "call_arguments", "call_answer", "call_send")

State = Literal["ok", "fallback", "missing", "not shown"]


class Finding(Struct, frozen=True):
    """One element: found by its first selector, by a later one, or missing."""

    element: str
    state: State
    selector: str | None = None


async def examine(chat: ChatPage, *, ask: bool = False) -> list[Finding]:
    """Checks all elements that are visible without a prompt; with `ask`, also those of a call.

    Raises `ModelError` if the page cannot be opened or the profile is not signed in.
    """
    await chat.load()
    await chat.dismiss()
    findings = await _check_all(chat.elements, "always")
    await _succeeds(chat.functions.open_panel())
    findings += await _check_all(chat.elements, "settings")
    findings += await _check_dialog(chat)
    if ask:
        findings += await _check_chat(chat)
    await _succeeds(chat.functions.disable())
    known = {finding.element for finding in findings}
    rest = [name for name in ELEMENTS if name not in known]
    return findings + [await _check(chat.elements, name, wanted=False) for name in rest]


async def _check_dialog(chat: ChatPage) -> list[Finding]:
    """Opens the editor, checks its elements, and closes it."""
    await _succeeds(chat.functions.enable())
    if await _succeeds(chat.functions.open_editor()):
        findings = await _check_all(chat.elements, "dialog")
        await _succeeds(chat.functions.close_dialog())
        return findings
    return [Finding(name, "not shown") for name, each in ELEMENTS.items() if each.shown == "dialog"]


async def _check_chat(chat: ChatPage) -> list[Finding]:
    """Makes the model call a function, which costs a request, and checks the elements."""
    for _ in range(_ATTEMPTS):  # the editor sometimes closes late
        if await _succeeds(chat.functions.set_declarations(_PING)):
            break
    else:
        return [Finding(name, "missing") for name in _CALL]
    async with chat.watch() as watch:
        await chat.send(_ASK)
        while (snapshot := await watch.next(_ASK_SECONDS)) and (
            snapshot.busy or not snapshot.begun
        ):
            pass
    findings = await _check_all(chat.elements, "chat")
    return findings + [await _check(chat.elements, name, wanted=True) for name in _CALL]


async def _check_all(elements: Elements, shown: Shown) -> list[Finding]:
    names = [name for name, element in ELEMENTS.items() if element.shown == shown]
    return [await _check(elements, name, wanted=name not in _OPTIONAL) for name in names]


async def _check(elements: Elements, name: str, *, wanted: bool) -> Finding:
    number = await elements.matching(name)
    if number is None:
        return Finding(name, "missing" if wanted else "not shown")
    return Finding(name, "fallback" if number else "ok", selectors_of(name)[number])


async def _succeeds(action: Awaitable[None]) -> bool:
    try:
        await action
    except ModelError:
        return False
    return True
