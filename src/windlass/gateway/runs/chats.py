"""Chats that the log keeps: what has been said in one, and who may go on with it."""

import contextlib
from collections.abc import Generator, Sequence

from msgspec import Struct

from windlass.content import Message
from windlass.gateway.http.errors import Refused
from windlass.gateway.runs.chat_line import line, replaced_by
from windlass.gateway.runs.hidden_turns import seen_by_client
from windlass.loop.history import History
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord
from windlass.wires.call_ids import CallIds
from windlass.wires.chat.read_request import ChatRequest
from windlass.wires.errors import Problem

__all__ = ["NO_CHAT", "ChatSoFar", "Chats"]


class ChatSoFar(Struct, frozen=True, kw_only=True):
    """What a run goes on with."""

    messages: tuple[Message, ...] = ()
    replaced_from: int = 0
    """The number of the first run that is replaced; 0 if none is, or it has no number."""
    replaced_since: float = 0.0
    """When that run began; 0 if none is replaced."""


NO_CHAT = ChatSoFar()


class Chats:
    """A chat is all runs of one owner that name it."""

    def __init__(self, kept: RunLog) -> None:
        self._log = kept
        self._taken: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def only_run_of(self, owner: str, chat: str) -> Generator[None]:
        """Keeps a chat for one run, from before it is begun. Raises `Refused` if one has it."""
        if (owner, chat) in self._taken:
            raise _busy("A run of this chat has not ended.")
        self._taken.add((owner, chat))
        try:
            yield
        finally:
            self._taken.discard((owner, chat))

    async def so_far(self, owner: str, request: ChatRequest) -> ChatSoFar:
        """What has been said in the request's chat, or was before the run that it `replaces`.

        Raises `Refused` if that is none of the chat's, and while a run of the chat goes.
        """
        runs = await self._log.list(owner=owner, chat=request.chat)
        replaced = next((run for run in runs if run.id == request.replaces), None)
        if request.replaces and replaced is None:
            message = f"replaces: this chat has no run {request.replaces[:100]!r}"
            raise Refused(Problem(404, message, "run_not_found", "replaces"))
        if going := next((run.id for run in runs if run.ended is None), None):
            raise _busy(f"The run {going} of this chat has not ended.")
        number, since = _place_of(replaced) if replaced else (0, 0.0)
        before = [run for run in runs if replaced is None or _is_before(run, number, since)]
        seen = await self.seen(line(before))
        return ChatSoFar(messages=seen, replaced_from=number, replaced_since=since)

    async def seen(self, runs: Sequence[RunRecord]) -> tuple[Message, ...]:
        """The conversation as a client has it after these runs, newest first."""
        for record in runs:
            if record.reason == "error":
                continue  # a failure leaves the conversation as it was
            history = History(await self._log.read(record.id))
            if record.ended is None:
                return history.started.messages if history.started else ()
            return seen_by_client(history.reply(), history.asked, CallIds(record.id))
        return ()


def _place_of(run: RunRecord) -> tuple[int, float]:
    """The number of the run, or of the first that it replaced, and when that began."""
    number, since = replaced_by(run)
    return (number, since) if since else (run.number, run.created)


def _is_before(run: RunRecord, number: int, since: float) -> bool:
    return run.number < number if number else run.created < since


def _busy(message: str) -> Refused:
    return Refused(Problem(409, message, "chat_busy", "chat_id"))
