"""A model wrapper that keeps the address of the model's service out of errors."""

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from windlass.errors import ModelError, StorageError, WindlassError
from windlass.events import ModelEvent
from windlass.gateway.http.errors import problem_of
from windlass.model import Model, ModelRequest, ModelWrapper

log = logging.getLogger("windlass.gateway")


def failure_text(run_id: str, error: BaseException) -> str:
    """The text in a run's events of the error that ended it. Clients read it.

    Windlass's own errors keep their text, except storage errors, which name files. Any other error
    is logged, and clients read only that the server failed.
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
