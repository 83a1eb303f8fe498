"""Reading ahead: a model that keeps what it has read answers sooner to what begins alike."""

from typing import Protocol, runtime_checkable

from windlass.model import Model, ModelRequest

__all__ = ["WarmingModel", "warmed"]


@runtime_checkable
class WarmingModel(Protocol):
    """A model that can read a request's prompt ahead."""

    async def warm(self, request: ModelRequest) -> None: ...


async def warmed(model: Model, request: ModelRequest) -> None:
    """Has the model read the prompt; one that keeps nothing is left alone."""
    if isinstance(model, WarmingModel):
        await model.warm(request)
