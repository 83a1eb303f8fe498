"""What a client asks of a run, in no protocol's terms. Wires read it; the run service plans it."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from windlass.content import Message
from windlass.model import AUTO, Settings, ToolChoice
from windlass.settings import Mode
from windlass.tool import Tool

PartKind: TypeAlias = Literal["image", "audio", "file", "other"]


ONE_REQUEST: dict[str, Any] = {"windlass": {"one_request": True}}
"""The `extra` of a system message that later requests do not inherit."""


def inherited(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that a later request of the same conversation inherits."""
    return tuple(each for each in messages if each.extra.get("windlass", {}) != _ONE_REQUEST)


_ONE_REQUEST = ONE_REQUEST["windlass"]


class RequestLimits(Struct, frozen=True, kw_only=True):
    """Limits on the content of one request."""

    max_json_depth: int = 64
    max_messages: int = 10_000
    max_tools: int = 128


class PartPlace(NamedTuple):
    """A part of the request that is not plain text."""

    place: str
    """Its path in the body, for errors: `messages[0].content[1]`."""
    type: str
    """Its type, as the client wrote it."""
    kind: PartKind
    """What it contains. `other` is a part that only a model on the same wire may understand."""
    in_result: bool = False
    """Whether it is in a tool result."""


def _no_tools(source: bytes, limits: RequestLimits) -> Sequence[Tool]:
    return ()


class ClientTools(Struct, frozen=True):
    """The tools that the client runs: their JSON, and the function that reads it.

    They are read later, because clients send the same list in every turn and read lists are cached.
    """

    source: bytes = b""
    read: Callable[[bytes, RequestLimits], Sequence[Tool]] = _no_tools
    """Raises `InvalidRequest`, which names the field."""


class RequestBudget(Struct, frozen=True):
    """The budgets that a client sets for its run."""

    max_tokens_total: int | None = None
    max_cost: Decimal | None = None
    timeout: float | None = None


NO_BUDGET = RequestBudget()


class RunRequest(Struct, frozen=True, kw_only=True):
    """A request for a run."""

    wire: str
    """The protocol of the request, such as `chat`. `extra` and `answer` have its form."""
    model: str
    messages: tuple[Message, ...]
    tools: ClientTools = ClientTools()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    """Fields that Windlass does not know. Only a model on the same wire receives them."""
    live: bool = False
    """Whether the client streams."""
    background: bool = False
    """Whether the run continues without its client."""
    store: bool = True
    """Whether the run may be written to the gateway's log."""
    approvable: bool = False
    """Whether the client can approve calls, though it does not stream."""
    brought: tuple[Tool, ...] = ()
    """Tools of servers that the request names. The gateway runs them."""
    chat: str = ""
    """The id of the stored chat that the messages continue."""
    replaces: str = ""
    """The run of that chat that this one replaces, with all runs after it."""
    mode: Mode | None = None
    """None means the mode of the model."""
    session: str = ""
    """The worker session whose tools the run may use."""
    parts: tuple[PartPlace, ...] = ()
    """The parts of its messages that are not plain text."""
    answer: dict[str, Any] = {}
    """The JSON values that the wire needs to write the answer. Stored with the run."""
    size: int = 0
    """The size of the body in bytes."""
    budget: RequestBudget = NO_BUDGET
