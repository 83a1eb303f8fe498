"""A model held to what the client was promised."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from windlass.emulation.mode import mode_of
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.events import ModelEvent, ToolCallStarted, TurnEnded
from windlass.model import Model, ModelRequest, warmed
from windlass.settings import Mode

__all__ = ["EnforcedModel"]


class EnforcedModel:
    """Hears no call that the request rules out, whatever the service makes of the request.

    `tool_choice` may allow no calls, or those of named tools alone; `parallel_tool_calls: false`
    allows one call a turn. Not every service keeps to them. One that `insists` raises `ModelError`
    for a turn without a call where a call is required.
    """

    def __init__(self, model: Model, *, insists: bool = False) -> None:
        self._model, self._insists = model, insists

    def __getattr__(self, name: str) -> Any:
        """What the model says of itself, such as how it is best brought to call functions."""
        return getattr(self._model, name)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def mode(self) -> Mode:
        return mode_of(self._model)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        choice = request.tool_choice
        if (
            choice.mode == "none"
            or choice.names
            or request.parallel_tool_calls is False
            or (self._insists and choice.mode == "required")
        ):
            return aclosing(self._heard(request))
        return self._model.stream(request)

    async def _heard(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        names, calls, unheard = request.tool_choice.names, 0, set[int]()
        required = self._insists and request.tool_choice.mode == "required"
        most = 1 if request.parallel_tool_calls is False else math.inf
        most = 0 if request.tool_choice.mode == "none" else most
        held: list[ModelEvent] = []
        async with self._model.stream(request) as events:
            async for event in events:
                if type(event) is ToolCallStarted:
                    if (names and event.name not in names) or calls >= most:
                        unheard.add(event.index)
                    else:
                        calls += 1
                elif type(event) is TurnEnded and required and not calls:
                    self._refuse(event)
                if getattr(event, "index", None) in unheard:
                    continue
                held.append(event)
                # An emulated turn shows nothing before its call: nor does one without a call.
                if calls or not required or self.mode != "emulated" or type(event) is TurnEnded:
                    for each in held:
                        yield each
                    held.clear()

    def _refuse(self, end: TurnEnded) -> None:
        """Raises `ModelError` for a turn that could have had its call."""
        if end.finish not in ("stop", "tool_calls", "other"):
            return
        if self.mode == "native":
            raise NativeModeUnavailable("the model called no tool, though tool_choice requires it")
        raise ModelError(
            "The model was asked again and called no tool, though tool_choice requires it.",
            code="tool_choice_ignored",
        )

    async def warm(self, request: ModelRequest) -> None:
        await warmed(self._model, request)

    async def aclose(self) -> None:
        await self._model.aclose()
