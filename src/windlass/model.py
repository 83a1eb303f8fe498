"""The `Model` and `Toolset` protocols, and the request to a model."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
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
    "EventBatches",
    "Model",
    "ModelRequest",
    "Settings",
    "ToolChoice",
    "Toolset",
    "batch_reader",
    "tool_choice_from",
]


class ToolChoice(Struct, frozen=True):
    """Which tools the model may or must call. `required` means one of `names`, or any tool."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    only: bool = False
    """With `required`: after the required call, too, the model may only call `names`."""
    soft: bool = False
    """With `required`: a turn without a call is accepted, too."""


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
    """Sampling settings that all providers have. None means the provider's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    response_schema: Schema | None = None
    """The JSON Schema of the answer; `{}` means any JSON object."""
    response_name: str | None = None
    """The schema's name, for providers that need one."""
    response_strict: bool | None = None
    """Whether the provider must enforce the schema, if it can."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The field name of `max_tokens` on a wire with two names; None means the wire's default."""
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    """How much the model thinks: `none`, `minimal`, `low`, `medium`, `high`, or its own word."""


class ModelRequest(Struct, frozen=True):
    """One request to a model."""

    messages: Sequence[Message]
    tools: tuple[Declaration, ...] = ()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    """Fields of the provider's request body that Windlass does not know; sent unchanged."""
    live: bool = True
    """Whether the caller streams: a live request asks for a stream, others for one body."""


class EventBatches:
    """The events of a turn, which can also be read as they arrived: several at a time.

    A wrapper of a model that reads one event after another works unchanged. The loop reads batches,
    so that the tokens of one network packet cost one step.
    """

    __slots__ = ("_batches", "_unread")

    def __init__(self, batches: AsyncGenerator[Sequence[ModelEvent], None]) -> None:
        self._batches = batches
        self._unread: list[ModelEvent] = []
        """The rest of the current batch, last event first."""

    async def some(self) -> Sequence[ModelEvent]:
        """The next events; none at the end."""
        if self._unread:
            rest = self._unread[::-1]
            self._unread.clear()
            return rest
        async for batch in self._batches:
            if batch:
                return batch
        return ()

    def __aiter__(self) -> "EventBatches":
        return self

    async def __anext__(self) -> ModelEvent:
        if not self._unread:
            self._unread = list(await self.some())[::-1]
            if not self._unread:
                raise StopAsyncIteration
        return self._unread.pop()

    async def aclose(self) -> None:
        await self._batches.aclose()


def batch_reader(
    events: AsyncIterator[ModelEvent],
) -> Callable[[], Awaitable[Sequence[ModelEvent]]]:
    """A function that returns the next events of a turn, and none at its end."""
    if isinstance(events, EventBatches):
        return events.some

    next_of = aiter(events).__anext__

    async def next_event() -> Sequence[ModelEvent]:
        try:
            return (await next_of(),)
        except StopAsyncIteration:
            return ()

    return next_event


@runtime_checkable
class Model(Protocol):
    """A language model, or a wrapper of one. `stream` is its only verb."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Streams the events of one turn; the last is always `TurnEnded`.

        Raises `ModelError`, or `StreamCut` if the turn is interrupted. The model retries by itself,
        but never after it has yielded an event. Leaving the context closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Closes connections. A closed model may be used again."""
        ...


class ModelWrapper:
    """The base of models that wrap another: `stream` is theirs, and the rest is the other's."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def __getattr__(self, name: str) -> Any:
        """The model's other attributes, such as its preferred way to call functions."""
        return getattr(self._model, name)

    async def aclose(self) -> None:
        await self._model.aclose()


@runtime_checkable
class Toolset(Protocol):
    """A source of tools: a registry, an MCP server, a remote session."""

    async def list_tools(self) -> "Sequence[Tool]":
        """Returns the current tools. Called once at the start of each run."""
        ...


def all_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """Returns all functions of the request, whether or not `tool_choice` allows them."""
    return tuple([tool for tool in request.tools if isinstance(tool, FunctionDeclaration)])


def callable_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """Returns the functions that `tool_choice` allows in this turn."""
    choice = request.tool_choice
    if choice.mode == "none":
        return ()
    offered = all_functions(request)
    return tuple(each for each in offered if each.name in choice.names) if choice.names else offered


def named_functions(request: ModelRequest) -> tuple[FunctionDeclaration, ...]:
    """Returns all offered functions, and those of earlier calls, by name only."""
    names = dict.fromkeys(each.name for each in all_functions(request))
    for message in request.messages:
        names |= dict.fromkeys(
            each.name for each in message.parts if isinstance(each, FunctionCall)
        )
    return tuple(map(FunctionDeclaration, names))


def has_calls(messages: Iterable[Message]) -> bool:
    """Whether the messages contain calls or results."""
    return any(
        isinstance(part, (FunctionCall, FunctionResponse))
        for message in messages
        for part in message.parts
    )


def is_about_tools(request: ModelRequest) -> bool:
    """Whether the request has functions, calls or results."""
    offers = any(isinstance(tool, FunctionDeclaration) for tool in request.tools)
    return offers or has_calls(request.messages)


class Preparation(Struct, frozen=True):
    """What a model of this process does before it can answer, and about how long it will take."""

    stage: Literal["loading", "reading"]
    """`loading`: its weights. `reading`: the instructions and tools of its requests."""
    seconds_left: int | None = None
    """None if it is not known yet."""


@runtime_checkable
class WarmingModel(Protocol):
    """A model that can read prompts in advance, so that requests with the same start are fast."""

    async def warm(self, *requests: ModelRequest) -> None: ...


@runtime_checkable
class CachingModel(Protocol):
    """A model that caches what it has declared to its service."""

    def clear_cache(self) -> int:
        """Clears the cache; returns how many entries it had."""
        ...


async def warmed(model: Model, *requests: ModelRequest) -> None:
    """Makes the model read these prompts in advance; does nothing for other models."""
    if isinstance(model, WarmingModel):
        await model.warm(*requests)
