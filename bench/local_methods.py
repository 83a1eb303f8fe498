"""The methods by which an embedded model calls functions, each as a client."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing

from windlass import AsyncClient
from windlass.emulation.model import EmulatedModel
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.local.model import LocalModel

__all__ = ["METHODS"]


class RuntimeTools(LocalModel):
    """The same weights, with the tools given to llama.cpp's own chat template."""

    function_calling = True

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return aclosing(self._events(request))


def _by_profile(model: LocalModel) -> AsyncClient:
    return AsyncClient(model)


def _plain(model: LocalModel) -> AsyncClient:
    return AsyncClient(EmulatedModel(model), mode="native")


def _native(model: LocalModel) -> AsyncClient:
    return AsyncClient(model, mode="native")


METHODS: dict[str, tuple[type[LocalModel], Callable[[LocalModel], AsyncClient]]] = {
    "profile": (LocalModel, _by_profile),
    "plain": (LocalModel, _plain),
    "native": (RuntimeTools, _native),
}
"""`profile`: what users get. `plain`: emulation as for any model. `native`: the runtime's own."""
