"""A model that says what a script says, in process: no network, no key, no chance."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import get_args

import msgspec

from windlass.content import new_call_id
from windlass.errors import ModelError, StreamCut
from windlass.events import FinishReason, ModelEvent, ToolCallEnded, TurnEnded
from windlass.model import ModelRequest
from windlass.testing.history import check_history
from windlass.testing.pace import Pace, unwrapped
from windlass.testing.pieces import events_of, with_ids
from windlass.testing.script import (
    Cut,
    Disconnect,
    Fault,
    Hang,
    MalformedJson,
    MalformedSse,
    Refuse,
    Script,
    Turn,
)
from windlass.testing.stepping import Stepper

__all__ = ["ScriptedModel"]

_FINISH_REASONS: frozenset[str] = frozenset(get_args(FinishReason))


class ScriptedModel:
    """A `Model` that answers from a script and keeps the requests.

    `strict` refuses a history that a strict provider would refuse, with `ModelError` status 400.
    Raises `ScriptExhausted` when more is asked than the script has.
    """

    def __init__(
        self, script: Script[ModelRequest], name: str = "scripted/model", *, strict: bool = True
    ) -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._stepper = Stepper(script)
        self._strict = strict

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return self._opened(request)

    @asynccontextmanager
    async def _opened(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        request = msgspec.structs.replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        if self._strict:
            check_history(request.messages)
        step = self._stepper.next(request)
        if isinstance(step, Exception):
            raise step
        said, pace = unwrapped(step)
        # A real connection waits and fails while it is opened, before there is anything to iterate.
        if not request.live or not isinstance(said, Turn | Cut):
            await pace.to_the_end()
        await pace.before(0)
        if not isinstance(said, Turn | Cut):
            await _fail(said)
        async with aclosing(_told(said, pace, request.live)) as events:
            yield events

    async def aclose(self) -> None:
        """Nothing to give back."""


async def _told(said: Turn | Fault, pace: Pace, live: bool) -> AsyncGenerator[ModelEvent]:
    turn = said.turn if isinstance(said, Cut) else said
    assert isinstance(turn, Turn)
    if isinstance(said, Cut) and not live:
        raise StreamCut
    number = 0
    held: list[ModelEvent] = []
    for event in events_of(with_ids(turn, new_call_id), None if live else "whole"):
        # A reader knows that a call is complete when the next piece, or the end, has come.
        if isinstance(event, ToolCallEnded):
            held.append(event)
            continue
        if isinstance(said, Cut) and number == said.after:
            raise StreamCut
        await pace.before(number)
        while held:
            yield held.pop()
        yield event
        number += 1
    await pace.to_the_end()
    if isinstance(said, Cut):
        raise StreamCut
    for event in held:
        yield event
    yield _end_of(turn)


def _end_of(turn: Turn) -> TurnEnded:
    word = turn.finish_word
    finish: FinishReason = word if word in _FINISH_REASONS else "other"  # pyright: ignore[reportAssignmentType]
    return TurnEnded(finish, turn.usage, detail=None if finish == word else word)


async def _fail(fault: Fault) -> None:
    """Raises what a real model would raise."""
    match fault:
        case Refuse():
            raise ModelError(
                fault.message,
                status=fault.status,
                retryable=fault.status in (408, 409, 429) or fault.status >= 500,
                retry_after=fault.retry_after,
                code=fault.code,
            )
        case Hang():
            await asyncio.get_running_loop().create_future()
        case MalformedSse():
            raise StreamCut
        case MalformedJson():
            raise ModelError("the model's answer is not valid JSON", status=200, retryable=True)
        case Disconnect():
            raise ModelError("the connection was closed before an answer", retryable=True)
        case _:
            raise TypeError(f"not a fault: {fault!r}")
