"""A scripted model without function calling: it writes the calls of a script as plain text."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from typing import Any

from msgspec.structs import replace

from windlass.content import FunctionCall
from windlass.emulation.model import EmulatedModel
from windlass.events import ModelEvent, ToolCallEnded, ToolCallStarted
from windlass.model import ModelRequest
from windlass.testing import ScriptedModel, Turn
from windlass.testing.script import Cut, Slow, Stepper

_asked: ContextVar[ModelRequest] = ContextVar("asked")
_calls: ContextVar[tuple[FunctionCall, ...]] = ContextVar("calls")


class PlainTextModel:
    """An emulated model over a scripted one that only writes text.

    `requests` are what the loop asked, before emulation put it into words. A call's id is not part
    of a text; where the script names one, it is put back, so that a test can tell calls apart.
    """

    def __init__(self, script: Any) -> None:
        self.requests: list[ModelRequest] = []
        self._stepper: Stepper[ModelRequest] = Stepper(script)
        self.writer = ScriptedModel(self._write, strict=False)
        self._emulated = EmulatedModel(self.writer)

    @property
    def name(self) -> str:
        return self.writer.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return self._opened(request)

    async def aclose(self) -> None:
        await self._emulated.aclose()

    @asynccontextmanager
    async def _opened(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        request = replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        _asked.set(request)
        async with self._emulated.stream(request) as events:
            yield with_ids(events, lambda: _calls.get(()))

    def _write(self, _: ModelRequest) -> Any:
        return _written(self._stepper.next(_asked.get()))


def _written(step: Any) -> Any:
    """Returns the step with its calls as text."""
    match step:
        case Turn():
            _calls.set(step.calls)
            text = step.text + "\n".join(map(_in_words, step.calls))
            return replace(step, text=text, calls=())
        case Cut():
            return replace(step, turn=_written(step.turn))
        case Slow():
            return replace(step, step=_written(step.step))
        case _:
            return step


def _in_words(call: FunctionCall) -> str:
    """Returns the call in the format of the prompt. The arguments may be invalid."""
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.json}}}\n</tool_call>'


async def with_ids(
    events: AsyncIterator[ModelEvent], written: Callable[[], tuple[FunctionCall, ...]]
) -> AsyncIterator[ModelEvent]:
    """Yields the events with the call ids of the script."""
    async for event in events:
        calls = written()
        match event:
            case ToolCallStarted(index=index) if index < len(calls) and calls[index].id:
                yield replace(event, id=calls[index].id)
            case ToolCallEnded(index=index) if index < len(calls) and calls[index].id:
                yield replace(event, call=replace(event.call, id=calls[index].id))
            case _:
                yield event
