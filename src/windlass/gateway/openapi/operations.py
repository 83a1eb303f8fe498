"""How a route family describes its endpoints: one `Operation` for each method of a path."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Struct
from typing_extensions import TypeAliasType

from windlass.settings import Mode
from windlass.wires.chat.types import ErrorJson
from windlass.wires.fields import Field, NonEmptyText

ModeJson = TypeAliasType("ModeJson", Mode)

ALWAYS = (405, 431, 500)
GUARDED = (401, 403, *ALWAYS)
WITH_BODY = (400, 408, 413, 415)
STARTING = (404, 429, 503, *WITH_BODY, *GUARDED)
WAITING = (409, 422, 502, 504)
"""The statuses of a run that fails while its client waits."""


class RequestParameter(Struct, frozen=True):
    """A parameter of a request. Those of the path are required."""

    name: str
    place: Literal["path", "query", "header"]
    description: str
    type: Any = str


class EventStream(Struct, frozen=True):
    """A stream of server-sent events. Their data is JSON of one of `kinds`, or the text `last`."""

    kinds: tuple[Any, ...]
    last: str | None = None


class OtherAnswer(Struct, frozen=True):
    """Another successful response, without a body if `answer` is None."""

    description: str
    answer: Any = None


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path. The schemas are derived from the types of its JSON."""

    id: str
    summary: str
    answer: Any = None
    """The type of a JSON response."""
    stream: EventStream | None = None
    texts: tuple[str, ...] = ()
    """The content types of a response that is plain text."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: Any = None
    """The type of the request's JSON body."""
    parameters: tuple[RequestParameter, ...] = ()
    problems: tuple[int, ...] = GUARDED
    error: Any = ErrorJson
    """The type of an error's JSON, which depends on the wire."""
    more: dict[int, OtherAnswer] = {}
    guarded: bool = True
    """Whether the operation needs a key."""


Paths: TypeAlias = dict[str, dict[str, Operation]]
"""The operations of a route family by path and method."""

MODE_PARAMETER = RequestParameter(
    "X-Function-Calling-Mode", "header", "The function calling mode of this request.", ModeJson
)
SESSION_PARAMETER = RequestParameter(
    "X-Windlass-Session",
    "header",
    "A worker session; its tools are available to the run.",
    Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,64}$")],
)
QueryNumber: TypeAlias = Annotated[int, Field(ge=0, le=10**15 - 1)]
LIMIT = RequestParameter(
    "limit", "query", "The maximum number of entries, at most 1,000.", QueryNumber
)


def path_parameter(name: str, description: str) -> RequestParameter:
    return RequestParameter(name, "path", description, NonEmptyText)
