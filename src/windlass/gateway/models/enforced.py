"""A model wrapper that enforces the tool choice of the request."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from windlass.emulation.mode import mode_of
from windlass.errors import ModelError, NativeModeUnavailable
from windlass.events import ModelEvent, ToolCallStarted, TurnEnded
from windlass.model import Model, ModelRequest, ModelWrapper, warmed


class EnforcedModel(ModelWrapper):
    """Drops the calls that the request forbids, since not every service obeys the request.

    `tool_choice` may forbid all calls or allow only named tools; `parallel_tool_calls: false`
    allows one call per turn. With `insists`, a turn without a required call raises `ModelError`.
    """

    def __init__(self, model: Model, *, insists: bool = False) -> None:
        super().__init__(model)
        self._insists = insists

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
            return aclosing(self._allowed_events(request))
        return self._model.stream(request)

    async def _allowed_events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        names, calls, dropped = request.tool_choice.names, 0, set[int]()
        required = self._insists and request.tool_choice.mode == "required"
        max_calls = 1 if request.parallel_tool_calls is False else math.inf
        max_calls = 0 if request.tool_choice.mode == "none" else max_calls
        delayed: list[ModelEvent] = []
        async with self._model.stream(request) as events:
            async for event in events:
                if type(event) is ToolCallStarted:
                    if (names and event.name not in names) or calls >= max_calls:
                        dropped.add(event.index)
                    else:
                        calls += 1
                elif type(event) is TurnEnded and required and not calls:
                    self._refuse(event)
                if getattr(event, "index", None) in dropped:
                    continue
                delayed.append(event)
                # An emulated turn that must have a call emits nothing before that call.
                if (
                    calls
                    or not required
                    or mode_of(self._model) != "emulated"
                    or type(event) is TurnEnded
                ):
                    for each in delayed:
                        yield each
                    delayed.clear()

    def _refuse(self, end: TurnEnded) -> None:
        """Raises `ModelError`, unless the turn ended early and could not have a call."""
        if end.finish not in ("stop", "tool_calls", "other"):
            return
        if mode_of(self._model) == "native":
            problem: ModelError = NativeModeUnavailable(
                "the model called no tool, but tool_choice requires a call"
            )
        else:
            problem = ModelError(
                "The model called no tool, even when asked again, but tool_choice requires a call.",
                code="tool_choice_ignored",
            )
        problem.usage = end.usage
        try:
            raise problem
        finally:
            del problem  # its traceback holds this frame

    async def warm(self, *requests: ModelRequest) -> None:
        await warmed(self._model, *requests)
