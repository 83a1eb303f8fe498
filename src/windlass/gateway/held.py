"""A model held to what the client was promised."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

from windlass.emulation.mode import mode_of
from windlass.emulation.profile_warming import warmed
from windlass.events import ModelEvent, ToolCallStarted
from windlass.model import Model, ModelRequest
from windlass.settings import Mode

__all__ = ["HeldModel"]


class HeldModel:
    """Hears no call that the request rules out, whatever the service makes of the request.

    `tool_choice` may allow no calls, or those of named tools alone; `parallel_tool_calls: false`
    allows one call a turn. Not every service keeps to them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

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
        if choice.mode != "none" and not choice.names and request.parallel_tool_calls is not False:
            return self._model.stream(request)
        return aclosing(self._heard(request))

    async def _heard(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        names, calls, unheard = request.tool_choice.names, 0, set[int]()
        most = 1 if request.parallel_tool_calls is False else math.inf
        most = 0 if request.tool_choice.mode == "none" else most
        async with self._model.stream(request) as events:
            async for event in events:
                if type(event) is ToolCallStarted:
                    if (names and event.name not in names) or calls >= most:
                        unheard.add(event.index)
                    else:
                        calls += 1
                if getattr(event, "index", None) not in unheard:
                    yield event

    async def warm(self, request: ModelRequest) -> None:
        await warmed(self._model, request)

    async def aclose(self) -> None:
        await self._model.aclose()
