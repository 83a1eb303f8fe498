"""What a request offers and what its history holds. Pure, and cheap to import."""

from collections.abc import Iterable

from windlass.content import FunctionCall, FunctionDeclaration, FunctionResponse, Message
from windlass.model import ModelRequest

__all__ = ["callable_functions", "functions", "has_calls", "is_about_tools", "named_functions"]


def functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """The functions that are offered, whether or not they may be called now."""
    return tuple(tool for tool in request.tools if isinstance(tool, FunctionDeclaration))


def callable_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """The functions that `tool_choice` lets the model call in this turn."""
    choice = request.tool_choice
    if choice.mode == "none":
        return ()
    offered = functions(request)
    return tuple(each for each in offered if each.name in choice.names) if choice.names else offered


def named_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """Every function that has a name here: those offered, and those called before."""
    names = dict.fromkeys(each.name for each in functions(request))
    for message in request.messages:
        names |= dict.fromkeys(
            each.name for each in message.parts if isinstance(each, FunctionCall)
        )
    return tuple(map(FunctionDeclaration, names))


def has_calls(messages: Iterable[Message]) -> bool:
    """Whether there is anything that a model without function calling cannot read as it is."""
    return any(
        isinstance(part, (FunctionCall, FunctionResponse))
        for message in messages
        for part in message.parts
    )


def is_about_tools(request: ModelRequest) -> bool:
    """Whether it matters for this request how the model calls functions."""
    return bool(functions(request)) or has_calls(request.messages)
