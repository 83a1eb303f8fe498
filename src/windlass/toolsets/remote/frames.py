"""What gateways and workers say to each other: versioned JSON, checked before it is believed. Pure.

docs/worker-wire.md describes the same for workers that are not written in Python.
"""

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from windlass.content import FunctionDeclaration, FunctionResponse, Schema
from windlass.errors import ConfigError, WindlassError
from windlass.events import Outcome
from windlass.jsontext import encode_json
from windlass.tool import OnInterrupt, Tool, ToolOptions

VERSION = 1
Affinity = Literal["hint", "strict_queue", "strict_fail_fast"]
"""How firmly a session keeps to the worker of its last call: preferred, waited for, or an error."""
MOST_TOOLS = 1_000
_OPTIONS = ToolOptions.__struct_fields__


class BadFrame(WindlassError):
    """A message that cannot be believed; its text says why, and is sent back."""


class ToolSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=False):
    """A tool as its worker describes it: what the model is told, and how it wants to be run."""

    name: str
    description: str = ""
    parameters: Schema = {}
    timeout: float | None = None
    idempotent: bool = False
    cache: float | None = None
    serial: bool = False
    approve: bool = False
    after: tuple[str, ...] = ()
    retries: int = 2
    on_interrupt: OnInterrupt | None = None
    expose_errors: bool | None = None

    def options(self) -> ToolOptions:
        """Raises `ConfigError` for a value that makes no sense."""
        return ToolOptions(**{name: getattr(self, name) for name in _OPTIONS})

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(self.name, self.description, self.parameters)


class _Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    v: int = VERSION

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise ValueError(f"it is of version {self.v}, and this side speaks {VERSION}")


class Announcement(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="announcement"):
    """A worker and all its tools, at once: it is there with all of them or not at all."""

    worker: str
    session: str
    tools: tuple[ToolSpec, ...]
    max_running: int = 16
    running: int = 0


class Farewell(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="farewell"):
    worker: str
    session: str


Notice: TypeAlias = Announcement | Farewell


class Call(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="call"):
    """Run this tool. A key that has been seen is not run again: its answer is given again."""

    key: str
    name: str
    arguments: str
    """JSON text."""
    seconds: float | None = None
    """How long the caller waits."""
    queue: bool = True
    """Whether it may wait for its turn; otherwise a full worker says that it is busy."""
    run_id: str = ""
    call_id: str = ""
    round: int = 1


class Cancel(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="cancel"):
    key: str


class HostCall(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="host_call"):
    """A worker's tool calls a tool of the host, on behalf of the call with this key."""

    key: str
    name: str
    arguments: str


class Progress(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="progress"):
    progress: float | None = None
    message: str | None = None
    data: Any = None


class Result(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """A call's one answer."""

    response: FunctionResponse
    outcome: Outcome = "ok"
    retryable: bool = False


class Busy(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="busy"):
    """The worker runs as many calls as it may, and has not begun this one."""


class Refused(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """The worker has not begun the call, and will not."""

    reason: str


class Pong(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="pong"):
    """The worker lives."""

    reconnects: int = 0
    """How often it has lost its connection: each time, answers may have been lost with it."""


Reply: TypeAlias = Progress | Result | Busy | Refused

F = TypeVar("F")
NOTICE: msgspec.json.Decoder[Notice] = msgspec.json.Decoder(Notice)
REPLY: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)
PONG = msgspec.json.Decoder(Pong)
CALL = msgspec.json.Decoder(Call)
CANCEL = msgspec.json.Decoder(Cancel)
HOST_CALL = msgspec.json.Decoder(HostCall)


def encode(frame: Struct) -> bytes:
    return encode_json(frame)


def decode(data: bytes, decoder: msgspec.json.Decoder[F]) -> F:
    """The frame, as this decoder reads it. Raises `BadFrame`."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadFrame(f"the message cannot be read: {error}") from error


def checked(announcement: Announcement, session: str, worker: str) -> Announcement:
    """The announcement, if it is what it says, for the place that it came to. Raises `BadFrame`."""
    if (announcement.session, announcement.worker) != (session, worker):
        raise BadFrame(
            f"it speaks for {announcement.session}/{announcement.worker} on the subject of"
            f" {session}/{worker}"
        )
    if len(announcement.tools) > MOST_TOOLS:
        raise BadFrame(f"more than {MOST_TOOLS} tools")
    names = [spec.name for spec in announcement.tools]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise BadFrame(f"two tools are named {repeated!r}")
    for spec in announcement.tools:
        try:
            Tool(spec.declaration(), options=spec.options())
        except ConfigError as error:
            raise BadFrame(f"the tool {spec.name[:64]!r}: {str(error)[:300]}") from error
    return announcement


def spec_of(tool: Tool) -> ToolSpec:
    """What a worker tells of one of its tools. Raises `ConfigError` for one without a function."""
    declaration = tool.declaration
    if not tool.runnable or not isinstance(declaration, FunctionDeclaration):
        raise ConfigError(f"{tool.name} is only declared: a worker has nothing to run for it")
    return ToolSpec(
        name=tool.name,
        description=declaration.description,
        parameters=declaration.parameters or {"type": "object", "properties": {}},
        **{name: getattr(tool.options, name) for name in _OPTIONS},
    )
