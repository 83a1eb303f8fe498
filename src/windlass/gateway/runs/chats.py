"""Chats in the run log: the conversation so far, and the lock that allows one run at a time."""

import contextlib
import math
from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct

from windlass.content import Message
from windlass.gateway.http.errors import Refused
from windlass.gateway.runs.hidden_turns import seen_by_client
from windlass.loop.history import History
from windlass.request import RunRequest
from windlass.runs.origin import ADDED
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord
from windlass.runs.service import RunService
from windlass.wires.calls import CallIds
from windlass.wires.errors import Problem

TITLE = "title"
"""The field of a record's `answer` with the title that a client gave to the chat."""


class ChatSoFar(Struct, frozen=True, kw_only=True):
    """The conversation that a run continues."""

    messages: tuple[Message, ...] = ()
    replaced_from: int = 0
    """The number of the first run that this run replaces; 0 if none, or if it has no number."""
    replaced_since: float = 0.0
    """The start time of that run; 0 if none."""


NO_CHAT = ChatSoFar()


class Chats:
    """The chats of a log. A chat is all runs of one owner with the same chat id."""

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._locked: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def only_run_of(self, owner: str, chat: str) -> Generator[None]:
        """Locks a chat for one run. Raises `Refused` if another run of it is active."""
        if (owner, chat) in self._locked:
            raise _busy("A run of this chat has not ended.")
        self._locked.add((owner, chat))
        try:
            yield
        finally:
            self._locked.discard((owner, chat))

    async def so_far(self, owner: str, request: RunRequest) -> ChatSoFar:
        """The conversation of the request's chat, before the run that it `replaces`, if any.

        Raises `Refused` if the chat has no such run, and while a run of the chat is active.
        """
        runs = await self._log.list(owner=owner, chat=request.chat)
        replaced = next((run for run in runs if run.id == request.replaces), None)
        if request.replaces and replaced is None:
            message = f"replaces: this chat has no run {request.replaces[:100]!r}"
            raise Refused(Problem(404, message, "run_not_found", "replaces"))
        if active := next((run.id for run in runs if run.ended is None), None):
            raise _busy(f"The run {active} of this chat has not ended.")
        number, since = _place_of(replaced) if replaced else (0, 0.0)
        before = [run for run in runs if replaced is None or _is_before(run, number, since)]
        seen = await self.seen(current_runs(before))
        return ChatSoFar(messages=seen, replaced_from=number, replaced_since=since)

    async def seen(self, runs: Sequence[RunRecord]) -> tuple[Message, ...]:
        """The conversation that a client has seen after these runs (newest first)."""
        for record in runs:
            if record.reason == "error":
                continue  # a failed run does not change the conversation
            history = History(await self._log.read(record.id))
            if record.ended is None:
                return history.started.messages if history.started else ()
            return seen_by_client(history.reply(), history.input_count, CallIds(record.id))
        return ()

    async def rename(
        self, service: RunService[Any, Any], owner: str, chat: str, title: str
    ) -> None:
        """Stores a title for the chat. Raises `Refused` while a run of the chat is active."""
        request = RunRequest(wire="", model="", messages=(), chat=chat)
        with self.only_run_of(owner, chat):
            so_far = await self.so_far(owner, request)
            # `/v1/conversations` reads `asked`: this record adds no messages.
            change = {"asked": 0, TITLE: title}
            await service.store_messages(so_far.messages, "", chat, owner=owner, answer=change)


def is_title(run: RunRecord) -> bool:
    """Whether the record only stores a title for its chat."""
    return run.origin.get("kind") == ADDED and TITLE in run.origin.get("answer", {})


def chosen_title(runs: Sequence[RunRecord]) -> str:
    """The title that a client gave to the chat last; empty if none."""
    return next((run.origin["answer"][TITLE] for run in runs if is_title(run)), "")


def _place_of(run: RunRecord) -> tuple[int, float]:
    """The number and the start time of the run, or of the first run that it replaced."""
    number, since = first_replaced(run)
    return (number, since) if since else (run.number, run.created)


def _is_before(run: RunRecord, number: int, since: float) -> bool:
    return run.number < number if number else run.created < since


def _busy(message: str) -> Refused:
    return Refused(Problem(409, message, "chat_busy", "chat_id"))


def current_runs(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The current runs of a chat: those that no later run replaced. Newest first, like `runs`.

    A run's origin has the number of the first run that it replaced, which is still known after that
    run was deleted. Older versions stored the start time of that run instead.
    """
    current: list[RunRecord] = []
    before = since = math.inf
    for run in runs:
        if run.number < before and run.created < since:
            current.append(run)
            number, started = first_replaced(run)
            before = number or before
            since = started if started and not number else since
    return current


def first_replaced(run: RunRecord) -> tuple[int, float]:
    """The number and the start time of the first run that this one replaced; 0 if none."""
    return run.origin.get("replaced_from", 0), run.origin.get("replaced_since", 0.0)
