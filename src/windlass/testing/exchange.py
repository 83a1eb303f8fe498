"""What passes between a client and a fake upstream, as values: a request in, an answer out."""

from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from windlass.testing.pace import Pace
from windlass.testing.script import Turn

__all__ = ["Answer", "Exchange", "Frames", "Received", "Refused", "json_bytes"]


class Received(Struct, frozen=True):
    """A request as it came: header names in lower case, the body decoded if it is JSON."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: bytes


class Frames(Struct, frozen=True):
    """The payloads of a stream: what opens it, one for each piece of the turn, what ends it."""

    head: list[bytes]
    pieces: list[bytes]
    tail: list[bytes]


class Exchange(Protocol):
    """One accepted request, and how its service would write the answer."""

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream."""
        ...

    def body(self, turn: Turn) -> bytes:
        """The turn as one JSON body."""
        ...

    def frames(self, turn: Turn) -> Frames:
        """The turn as the payloads of server-sent events."""
        ...


class Answer(Struct, frozen=True):
    """What goes back over the connection, write by write."""

    writes: list[bytes]
    pace: Pace
    status: int = 200
    headers: dict[str, str] = {}
    length: int | None = None
    """The declared length; None for a stream."""
    end: Literal["complete", "close", "never"] = "complete"
    """Whether the answer is finished, its connection closed in the middle, or left hanging."""


class Refused(Exception):
    """The service does not accept the request."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param


def json_bytes(value: object) -> bytes:
    return msgspec.json.encode(value)
