"""`GreetedModel`: emulation for small models, which do as they seem to have done before."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from windlass.content import Message
from windlass.emulation.model import EmulatedModel
from windlass.emulation.offered import callable_functions
from windlass.events import ModelEvent
from windlass.model import ModelRequest

__all__ = ["GreetedModel"]

_EXAMPLE = {"windlass": {"example": True}}
"""Marks what nobody said, for whoever shortens a conversation."""
_GREETING = (
    Message("user", Message.user("Hello!").parts, _EXAMPLE),
    Message("assistant", Message.assistant("Hello! How can I help you?").parts, _EXAMPLE),
)


class GreetedModel(EmulatedModel):
    """Begins every conversation that has tools with a greeting, answered in words.

    Examples that are only told to a small model do not keep it from calling a tool to say goodbye;
    one turn of its own does.
    """

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return super().stream(_greeted(request))

    async def warm(self, request: ModelRequest) -> None:
        await super().warm(_greeted(request))


def _greeted(request: ModelRequest) -> ModelRequest:
    """A call that must come is better off without."""
    if not callable_functions(request) or request.tool_choice.mode == "required":
        return request
    return replace(request, messages=_after_system(request.messages))


def _after_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    head = 1 if messages and messages[0].role == "system" else 0
    return (*messages[:head], *_GREETING, *messages[head:])
