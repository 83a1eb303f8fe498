"""Model wrappers: one enforces the tool choice of a request, one keeps addresses out of errors."""

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType

from windlass.emulation.mode import mode_of
from windlass.errors import ModelError, NativeModeUnavailable, StorageError, WindlassError
from windlass.events import ModelEvent, ToolCallStarted, TurnEnded
from windlass.gateway.http.errors import problem_of
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


log = logging.getLogger("windlass.gateway")


def failure_text(run_id: str, error: BaseException) -> str:
    """The text of an error that ended a run, for the run's events, which clients read.

    Windlass's own errors keep their text, except storage errors, which name files. Any other error
    is logged, and clients only read that the server failed.
    """
    if isinstance(error, WindlassError) and not isinstance(error, StorageError):
        return str(error) or type(error).__name__
    if not isinstance(error, WindlassError):
        log.error("Run failed", exc_info=error, extra={"run_id": run_id})
    return problem_of(error).message


class Upstream(ModelWrapper):
    """Logs addresses in errors; clients and the run's log get the model's name instead."""

    def __init__(self, model: Model, served_name: str) -> None:
        super().__init__(model)
        self._served_name = served_name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return _TurnContext(self._model.stream(request), self._served_name)


class _TurnContext:
    """Wraps the turn's context manager, not its stream: this costs nothing per event."""

    __slots__ = ("_name", "_turn")

    def __init__(
        self, turn: AbstractAsyncContextManager[AsyncIterator[ModelEvent]], name: str
    ) -> None:
        self._turn, self._name = turn, name

    async def __aenter__(self) -> AsyncIterator[ModelEvent]:
        return await self._turn.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        handled = await self._turn.__aexit__(kind, error, trace)
        if not handled and isinstance(error, ModelError) and error.public is not None:
            log.warning("%s", error.message, extra={"model": self._name})
            raise _without_address(error, f"the upstream of model {self._name!r}") from error
        return handled


def _without_address(error: ModelError, upstream: str) -> ModelError:
    assert error.public is not None
    return ModelError(
        error.public.replace("{upstream}", upstream),
        status=error.status,
        retryable=error.retryable,
        retry_after=error.retry_after,
        code=error.code,
    )
