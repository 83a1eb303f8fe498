"""`windlass aistudio doctor`: checks that a run can work on the page."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable
from typing import Literal

from msgspec import Struct

from windlass.errors import ModelError, StreamCut
from windlass.events import ToolCallEnded
from windlass.models.aistudio.page import ChatPage
from windlass.models.aistudio.selectors import ELEMENTS, Shown
from windlass.models.aistudio.turn import PageTurn, Patience

PROBE = "probe"
"""The name of the finding of the probe call."""

_PING = json.dumps(
    [
        {
            "name": "ping",
            "description": "Answers the caller with the same text.",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        }
    ]
)
_ASK_SECONDS = 60.0
_ATTEMPTS = 3
_OPTIONAL = ("search_toggle", "url_toggle", "code_toggle", "model_name", "reset_button")
"""Elements that not every model has, or that a run does not need."""
_CALL = ("call", "call_name", "call_arguments", "call_answer", "call_send")

State = Literal["ok", "fallback", "missing", "failed", "not shown"]


class Finding(Struct, frozen=True, omit_defaults=True):
    """One element: found by its first selector, only in other ways, or missing.

    The element `probe` is the probe call: read, or failed with the reason in `detail`.
    """

    element: str
    state: State
    selector: str | None = None
    """The first of the ways by which it was found."""
    detail: str = ""
    """All ways and the score, or the reason of a problem."""

    @property
    def is_problem(self) -> bool:
        """Whether a run can fail because of it."""
        return self.state in ("missing", "failed")


async def examine(chat: ChatPage, *, ask: bool = True) -> list[Finding]:
    """Checks all elements of the page; with `ask`, has the model call a function, and reads it.

    Raises `ModelError` if the page cannot be opened or the profile is not signed in.
    """
    await chat.load()
    findings: list[Finding] = []
    try:
        await chat.wait_until_ready()
        await chat.dismiss()
    except ModelError as problem:
        if problem.code == "signed_out":
            raise
        findings.append(Finding("ready", "failed", detail=problem.message))
    findings += await _check_all(chat, "always")
    await _problem_of(chat.functions.open_panel())
    findings += await _check_all(chat, "settings")
    findings += await _check_dialog(chat)
    if ask:
        findings += await _check_call(chat)
    await _problem_of(chat.functions.disable())
    known = {finding.element for finding in findings}
    rest = [name for name in ELEMENTS if name not in known]
    return findings + [await _check(chat, name, wanted=False) for name in rest]


async def _check_dialog(chat: ChatPage) -> list[Finding]:
    """Opens the editor, checks its elements, and closes it."""
    problem = await _problem_of(chat.functions.enable())
    problem = problem or await _problem_of(chat.functions.open_editor())
    names = [name for name, each in ELEMENTS.items() if each.shown == "dialog"]
    if problem:
        findings = [Finding(name, "not shown") for name in names]
        return [*findings, Finding("function calling", "failed", detail=problem)]
    findings = await _check_all(chat, "dialog")
    await _problem_of(chat.functions.close_dialog())
    return findings


async def _check_call(chat: ChatPage) -> list[Finding]:
    """Makes the model call a function, which costs a request, and reads its call."""
    problem = ""
    for _ in range(_ATTEMPTS):  # the editor sometimes closes late
        problem = await _problem_of(chat.functions.set_declarations(_PING))
        if not problem:
            break
    if problem:
        return [Finding(PROBE, "failed", detail=problem)]
    word = f"windlass-{secrets.token_hex(3)}"
    try:
        probe = await _probe(chat, word)
    except ModelError as problem:
        probe = Finding(PROBE, "failed", detail=problem.message)
    elements = await _check_all(chat, "chat")
    return [*elements, *[await _check(chat, name, wanted=True) for name in _CALL], probe]


async def _probe(chat: ChatPage, word: str) -> Finding:
    """Asks for a call with a word as its argument, and reads both. Raises `ModelError`."""
    turn = PageTurn(("ping",), bare=("ping",), live=False)
    prompt = f"Call the function ping now, with the text {word}."
    patience = Patience()
    waits = {"busy": _ASK_SECONDS, "quiet": patience.quiet, "late_call": patience.late_call}
    async with chat.watch((prompt,), ("ping",)) as watch:
        await chat.send(prompt)
        while (snapshot := await watch.next(waits[turn.waits_for])) is not None:
            turn.feed(snapshot)
    if turn.waits_for == "busy":
        return Finding(PROBE, "failed", detail=f"no answer in {_ASK_SECONDS:g} seconds")
    calls = [event.call for event in turn.finish() if isinstance(event, ToolCallEnded)]
    if len(calls) != 1 or calls[0].name != "ping":
        found = ", ".join(call.name for call in calls) or "a text"
        return Finding(PROBE, "failed", detail=f"expected one call of ping, read {found}")
    if calls[0].error is not None or not isinstance(calls[0].arguments, dict):
        return Finding(PROBE, "failed", detail=f"unreadable arguments: {calls[0].json[:80]}")
    if calls[0].arguments.get("text") != word:
        detail = f"read a call of ping; the model chose other arguments: {calls[0].json[:80]}"
        return Finding(PROBE, "ok", detail=detail)
    return Finding(PROBE, "ok", detail="read a call of ping with its arguments")


async def _check_all(chat: ChatPage, shown: Shown) -> list[Finding]:
    names = [name for name, element in ELEMENTS.items() if element.shown == shown]
    return [await _check(chat, name, wanted=name not in _OPTIONAL) for name in names]


async def _check(chat: ChatPage, name: str, *, wanted: bool) -> Finding:
    row = ELEMENTS[name]
    if row.shown == "chat" or not row.role:
        selector = await chat.elements.matches(name)
        if selector is not None:
            return Finding(name, "ok" if selector == row.selectors[0] else "fallback", selector)
    found = await chat.elements.found(name)
    if found is not None:
        ways = f"{'; '.join(found.ways)} (score {found.score})"
        return Finding(name, "ok" if found.is_first else "fallback", found.ways[0], ways)
    why = await chat.elements.why_missing(name)
    return Finding(name, "missing" if wanted else "not shown", detail=why if wanted else "")


async def _problem_of(action: Awaitable[None]) -> str:
    """The error of the action; empty if it succeeded."""
    try:
        await action
    except StreamCut:
        raise
    except ModelError as problem:
        return problem.message
    return ""
