"""model"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from windlass.content import (
    Declaration,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    Message,
    Schema,
)
from windlass.errors import ConfigError
from windlass.events import ModelEvent

if TYPE_CHECKING:
    from windlass.tool import Tool

__all__ = [
    "Model",
    "ModelRequest",
    "Settings",
    "ToolChoice",
    "Toolset",
    "callable_functions",
    "functions",
    "has_calls",
    "is_about_tools",
    "named_functions",
    "tool_choice_from",
]


class ToolChoice(Struct, frozen=True):
    """How free the model is: `required` with `names` means one of those, without them any tool."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    only: bool = False
    """With `required`: once the call was made, the model still may call no tool but `names`."""


AUTO = ToolChoice()
NONE = ToolChoice("none")


def tool_choice_from(value: "ToolChoice | str | dict[str, Any]") -> ToolChoice:
    """Reads `"auto"`, `"none"`, `"required"`, a tool's name, or OpenAI's object form.

    Raises `ConfigError` for anything else.
    """
    match value:
        case ToolChoice():
            return value
        case "auto" | "none" | "required":
            return ToolChoice(value)
        case "any":
            return ToolChoice("required")
        case str() if value:
            return ToolChoice("required", (value,))
        case {"type": "function", "function": {"name": str(name)}} | {
            "function": {"name": str(name)}
        }:
            return ToolChoice("required", (name,))
        case _:
            raise ConfigError(
                f"tool_choice must be 'auto', 'none', 'required' or a tool's name, not {value!r}"
            )


class Settings(Struct, frozen=True, omit_defaults=True):
    """Sampling settings that every provider has a word for. None leaves the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    response_schema: Schema | None = None
    """Ask for JSON of this shape; `{}` asks for any JSON object."""
    response_name: str | None = None
    """What the shape is called, for providers that want a name."""
    response_strict: bool | None = None
    """Whether a provider that can is to hold the model to the shape."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] | None = None
    """What a wire with two names is to call `max_tokens`; None leaves it to the wire."""


class ModelRequest(Struct, frozen=True):
    """Everything that one request to a model says."""

    messages: Sequence[Message]
    tools: tuple[Declaration, ...] = ()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    """Fields for the provider's request body that Windlass does not know; passed on as they are."""
    live: bool = True
    """Whether somebody watches: a live request asks for a stream, another for one body."""


@runtime_checkable
class Model(Protocol):
    """A language model, or a model around another one. `stream` is its only verb."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """The events of one turn; the last is always `TurnEnded`.

        Raises `ModelError`; a turn that breaks off raises `StreamCut`. Retries happen inside, and
        never after an event has been yielded. Leaving the context closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Gives back connections. A closed model may be used again."""
        ...


@runtime_checkable
class Toolset(Protocol):
    """A place that tools come from: a registry, an MCP server, a remote session."""

    async def list_tools(self) -> "Sequence[Tool]":
        """The tools as they are now; asked once at the start of each run."""
        ...


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


@runtime_checkable
class WarmingModel(Protocol):
    """A model that can read a request's prompt ahead."""

    async def warm(self, request: ModelRequest) -> None: ...


async def warmed(model: Model, request: ModelRequest) -> None:
    """Has the model read the prompt; one that keeps nothing is left alone."""
    if isinstance(model, WarmingModel):
        await model.warm(request)
