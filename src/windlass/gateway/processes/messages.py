"""The messages between the supervisor and its processes: one line of JSON each. Pure."""

from typing import TypeAlias

import msgspec
from msgspec import Struct

MAX_LINE = 2**16


class Ready(Struct, frozen=True, tag="ready"):
    """The process accepts requests."""


class Spend(Struct, frozen=True, tag="spend"):
    """Counts a request against a rate."""

    id: int
    name: str
    per_minute: int


class Acquire(Struct, frozen=True, tag="acquire"):
    """Asks for a slot. The request waits only if fewer than `max_waiting` others wait."""

    id: int
    name: str
    limit: int
    max_waiting: int = 0


class Withdraw(Struct, frozen=True, tag="withdraw"):
    """Withdraws a request for a slot that has not been answered."""

    id: int
    name: str


class Force(Struct, frozen=True, tag="force"):
    """Takes a slot even if all are taken."""

    name: str


class Return(Struct, frozen=True, tag="return"):
    """Returns slots; `recalled` if it answers a `Recall`."""

    name: str
    count: int
    recalled: bool = False


class Find(Struct, frozen=True, tag="find"):
    """Asks the other processes to store a run that they have only in memory."""

    id: int
    run_id: str
    """Empty for all runs."""


class Stored(Struct, frozen=True, tag="stored"):
    """Answers a `Store`."""

    id: int


LimitMessage: TypeAlias = Spend | Acquire | Withdraw | Force | Return
FromProcess: TypeAlias = Ready | LimitMessage | Find | Stored


class RequestAnswer(Struct, frozen=True, tag="answer"):
    """Answers a request: the seconds to wait for a `Spend`, 1 or 0 for an `Acquire`, 1 for a
    `Find`."""

    id: int
    value: float


class Recall(Struct, frozen=True, tag="recall"):
    """Asks for all unused slots now, and for each slot that is released later."""

    name: str


class Relax(Struct, frozen=True, tag="relax"):
    """Ends a recall: the process may keep released slots for its next runs."""

    name: str


class Drain(Struct, frozen=True, tag="drain"):
    """Asks the process to finish its requests without a time limit, and to exit."""


class Store(Struct, frozen=True, tag="store"):
    """Asks the process to store a run that it has only in memory, and to answer then."""

    id: int
    run_id: str
    """Empty for all runs."""


FromSupervisor: TypeAlias = RequestAnswer | Recall | Relax | Drain | Store

_from_process = msgspec.json.Decoder(FromProcess)
_from_supervisor = msgspec.json.Decoder(FromSupervisor)


def encode(message: FromProcess | FromSupervisor) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def from_process(line: bytes) -> FromProcess:
    return _from_process.decode(line)


def from_supervisor(line: bytes) -> FromSupervisor:
    return _from_supervisor.decode(line)
