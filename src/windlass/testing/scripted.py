"""`ScriptedModel`: a model that answers from a script, in process, without network or keys."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import cast, get_args

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, Message, new_call_id
from windlass.errors import ModelError, StreamCut, raisable
from windlass.events import FinishReason, ModelEvent, ToolCallEnded, TurnEnded
from windlass.model import ModelRequest
from windlass.testing.script import (
    Cut,
    Disconnect,
    Fault,
    Hang,
    Interrupt,
    MalformedJson,
    MalformedSse,
    Refuse,
    Script,
    StepDelays,
    Stepper,
    Turn,
    events_of,
    unwrap_slow,
    with_ids,
)

_RETRYABLE = {408, 409, 425, 429, 500, *range(502, 600)}
_FINISH_REASONS: frozenset[str] = frozenset(get_args(FinishReason))


class ScriptedModel:
    """A `Model` that answers from a script and records the requests.

    `strict` refuses a history that a strict provider would refuse, with `ModelError` status 400.
    Raises `ScriptExhausted` if there are more requests than steps.
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
            raise raisable(step)
        step, pace = unwrap_slow(step)
        playback = _playback(step)
        # As with a real connection, waits and failures at the start happen while it opens.
        if not request.live or playback is None:
            await pace.wait_rest()
        await pace.wait_before(0)
        if playback is None or (playback.error is not None and not request.live):
            raise await _failure(step)
        async with aclosing(_played_events(playback, pace, request.live)) as events:
            yield events

    async def aclose(self) -> None:
        """Does nothing: there are no resources to release."""


class _Playback(Struct, frozen=True):
    """A turn, and the error that interrupts it after `after` pieces, if any."""

    turn: Turn
    after: int = 0
    error: ModelError | None = None


def _playback(step: Turn | Fault) -> _Playback | None:
    match step:
        case Turn():
            return _Playback(step)
        case Cut(turn=turn, after=after):
            return _Playback(turn, after, StreamCut())
        case Interrupt(turn=turn, after=after, error=error):
            return _Playback(turn, after, _refusal(error))
        case _:
            return None


async def _played_events(
    playback: _Playback, pace: StepDelays, live: bool
) -> AsyncGenerator[ModelEvent]:
    turn, error = playback.turn, playback.error
    number = 0
    ended: list[ModelEvent] = []
    for event in events_of(with_ids(turn, new_call_id), None if live else "whole"):
        # As on a real wire, a call is known to be complete only when the next piece arrives.
        if isinstance(event, ToolCallEnded):
            ended.append(event)
            continue
        if error is not None and number == playback.after:
            raise raisable(error)
        await pace.wait_before(number)
        while ended:
            yield ended.pop()
        yield event
        number += 1
    await pace.wait_rest()
    if error is not None:
        raise raisable(error)
    for event in ended:
        yield event
    yield _turn_ended(turn)


def _turn_ended(turn: Turn) -> TurnEnded:
    word = turn.finish_word
    if word in _FINISH_REASONS:
        return TurnEnded(cast("FinishReason", word), turn.usage)
    return TurnEnded("other", turn.usage, detail=word)


async def _failure(fault: Turn | Fault) -> ModelError:
    """The error that a real model would raise. For `Hang` this never returns."""
    match fault:
        case Refuse() | Interrupt(error=Refuse()):
            return _refusal(fault if isinstance(fault, Refuse) else fault.error)
        case Hang():
            return await asyncio.get_running_loop().create_future()
        case Cut():
            return StreamCut()
        case MalformedJson() | MalformedSse():
            return StreamCut("the model's response is malformed")
        case Disconnect():
            return ModelError("the connection closed before a response", retryable=True)
        case _:
            raise TypeError(f"not a fault: {fault!r}")


def _refusal(refused: Refuse) -> ModelError:
    return ModelError(
        refused.message,
        status=refused.status,
        retryable=refused.status in _RETRYABLE,
        retry_after=refused.retry_after,
        code=refused.code,
    )


def check_history(messages: Sequence[Message]) -> None:
    """Raises `ModelError` with status 400 unless each call is answered once, in order, at once."""
    if not messages:
        raise _refused("the request has no messages")
    asked: tuple[FunctionCall, ...] = ()
    for place, message in enumerate(messages):
        if message.responses or message.role == "tool":
            _check_answers(place, message, asked)
        elif asked:
            raise _refused(f"message {place} must answer the calls {_names(asked)}")
        if message.calls and message.role != "assistant":
            raise _refused(f"message {place} has calls, but its role is {message.role}")
        asked = message.calls
    if asked:
        raise _refused(f"the calls {_names(asked)} of the last message have no answer")


def _check_answers(place: int, message: Message, asked: tuple[FunctionCall, ...]) -> None:
    if message.role != "tool" or len(message.responses) != len(message.parts):
        raise _refused(f"message {place}: results need a message of role tool of their own")
    wanted = [(made.id, made.name) for made in asked]
    given = [(answer.id, answer.name) for answer in message.responses]
    if wanted != given:
        raise _refused(f"message {place} answers {given}, but the calls before it are {wanted}")


def _names(asked: tuple[FunctionCall, ...]) -> str:
    return ", ".join(f"{made.name} ({made.id})" for made in asked)


def _refused(message: str) -> ModelError:
    return ModelError(message, status=400, code="invalid_history")
