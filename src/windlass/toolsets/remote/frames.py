"""The messages between gateways and workers: versioned JSON, validated when received. Pure.

docs/worker-wire.md describes them for workers that are not written in Python.
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
"""Whether a session's worker is preferred, waited for, or required (an error if it is full)."""
MAX_TOOLS = 1_000
_OPTIONS = ToolOptions.__struct_fields__


class BadFrame(WindlassError):
    """An invalid message. The sender receives the error's text."""


class ToolSpec(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=False):
    """A worker's description of a tool: its declaration and its options."""

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
        """The options. Raises `ConfigError` for an invalid value."""
        return ToolOptions(**{name: getattr(self, name) for name in _OPTIONS})

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(self.name, self.description, self.parameters)


class _Frame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    v: int = VERSION

    def __post_init__(self) -> None:
        if self.v != VERSION:
            raise ValueError(f"unsupported version {self.v} (supported: {VERSION})")


class Announcement(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="announcement"):
    """A worker with all its tools. An announcement is accepted or refused as a whole."""

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
    """A call of a tool. For a known key, the worker repeats its answer and does not run again."""

    key: str
    name: str
    arguments: str
    """JSON text."""
    seconds: float | None = None
    """How long the caller waits."""
    queue: bool = True
    """Whether the call may wait in a queue; otherwise a full worker answers `busy`."""
    run_id: str = ""
    call_id: str = ""
    round: int = 1
    token: str = ""
    """The token that host calls of this call must carry; empty if workers may call no tools."""


class Cancel(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="cancel"):
    key: str


class HostCall(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="host_call"):
    """A call of a host tool by a worker's tool, during the call with this key and token."""

    key: str
    name: str
    arguments: str
    token: str = ""


class Progress(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="progress"):
    progress: float | None = None
    message: str | None = None
    data: Any = None


class Result(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="result"):
    """The result of a call."""

    response: FunctionResponse
    outcome: Outcome = "ok"
    retryable: bool = False
    """Whether the same call may succeed later. The worker executes it again."""
    effect_unknown: bool = False
    """Whether it is unknown if the tool had its effect."""


class Busy(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="busy"):
    """The worker is at its limit and has not started the call."""


class CallRefused(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="refused"):
    """The worker has not started the call and will not start it."""

    reason: str


class Pong(_Frame, frozen=True, kw_only=True, omit_defaults=True, tag="pong"):
    """The worker's answer to a ping."""

    reconnects: int = 0
    """How often it lost its connection. Each time, answers can be lost."""


CallReply: TypeAlias = Progress | Result | Busy | CallRefused

F = TypeVar("F")
NOTICE: msgspec.json.Decoder[Notice] = msgspec.json.Decoder(Notice)
REPLY: msgspec.json.Decoder[CallReply] = msgspec.json.Decoder(CallReply)
PONG = msgspec.json.Decoder(Pong)
CALL = msgspec.json.Decoder(Call)
CANCEL = msgspec.json.Decoder(Cancel)
HOST_CALL = msgspec.json.Decoder(HostCall)


def encode(frame: Struct) -> bytes:
    return encode_json(frame)


def decode(data: bytes, decoder: msgspec.json.Decoder[F]) -> F:
    """The decoded frame. Raises `BadFrame`."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadFrame(f"invalid message: {error}") from error


def checked(announcement: Announcement, session: str, worker: str) -> Announcement:
    """The announcement, if it is valid for the subject it came on. Raises `BadFrame`."""
    if (announcement.session, announcement.worker) != (session, worker):
        raise BadFrame(
            f"an announcement for {announcement.session}/{announcement.worker} on the subject of"
            f" {session}/{worker}"
        )
    if len(announcement.tools) > MAX_TOOLS:
        raise BadFrame(f"more than {MAX_TOOLS} tools")
    names = [spec.name for spec in announcement.tools]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise BadFrame(f"duplicate tool name {repeated!r}")
    for spec in announcement.tools:
        try:
            Tool(spec.declaration(), options=spec.options())
        except ConfigError as error:
            raise BadFrame(f"tool {spec.name[:64]!r}: {str(error)[:300]}") from error
    return announcement


def spec_of(tool: Tool) -> ToolSpec:
    """The spec of a worker's tool. Raises `ConfigError` for a tool without a function."""
    declaration = tool.declaration
    if not tool.runnable or not isinstance(declaration, FunctionDeclaration):
        raise ConfigError(f"{tool.name} is only declared: a worker's tool needs a function")
    return ToolSpec(
        name=tool.name,
        description=declaration.description,
        parameters=declaration.parameters or {"type": "object", "properties": {}},
        **{name: getattr(tool.options, name) for name in _OPTIONS},
    )
