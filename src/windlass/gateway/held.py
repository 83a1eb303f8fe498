"""A model held to what the client was promised."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from windlass.emulation.mode import mode_of
from windlass.events import ModelEvent, ToolCallStarted
from windlass.model import Model, ModelRequest
from windlass.settings import Mode

__all__ = ["HeldModel"]


class HeldModel:
    """Hears no call that the request rules out, whatever the service makes of the request.

    A named `tool_choice` allows calls of those tools alone, and `parallel_tool_calls: false` one
    call a turn. Not every service keeps to them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def mode(self) -> Mode:
        return mode_of(self._model)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        if not request.tool_choice.names and request.parallel_tool_calls is not False:
            return self._model.stream(request)
        return aclosing(self._heard(request))

    async def _heard(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        names, one = request.tool_choice.names, request.parallel_tool_calls is False
        calls, unheard = 0, set[int]()
        async with self._model.stream(request) as events:
            async for event in events:
                if type(event) is ToolCallStarted:
                    if (names and event.name not in names) or (one and calls):
                        unheard.add(event.index)
                    else:
                        calls += 1
                if getattr(event, "index", None) not in unheard:
                    yield event

    async def aclose(self) -> None:
        await self._model.aclose()
