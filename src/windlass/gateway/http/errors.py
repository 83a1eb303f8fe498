"""Everything that can go wrong, as OpenAI's clients expect to be told of it. Pure."""

import math
import re
from typing import Any

from msgspec import Struct

from windlass.errors import (
    ConfigError,
    ModelError,
    NativeModeUnavailable,
    RoundLimitExceeded,
    RunInterrupted,
    RunNotFound,
    StorageError,
    StreamCut,
    TooManyRuns,
    WindlassError,
)
from windlass.jsontext import encode_json

__all__ = [
    "INTERNAL",
    "MALFORMED_CALL",
    "SHUTTING_DOWN",
    "Problem",
    "Refused",
    "bad_request",
    "headers_too_large",
    "problem_of",
]

INTERNAL = "internal"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
}
_PASSED_ON = frozenset({400, 404, 408, 409, 413, 422, 429, 503, 504})
"""An upstream's statuses that mean the same to our client. Its refusal of our key does not."""

_PLACE = re.compile(r"([a-z_]+(?:\[\d+\]|\.[a-z_]+)*): ")


class Problem(Struct, frozen=True):
    """One error as it goes over the wire."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    type: str | None = None
    retry_after: float | None = None

    def to_json(self) -> bytes:
        refused = "invalid_request_error" if 400 <= self.status < 500 else "server_error"
        kind = self.type or _TYPES.get(self.status, refused)
        fields: dict[str, Any] = {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        return encode_json({"error": fields})

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers: list[tuple[bytes, bytes]] = []
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after))).encode()))
        return headers


SHUTTING_DOWN = Problem(503, "The gateway is shutting down.", "shutting_down", retry_after=5)
MALFORMED_CALL = Problem(
    502,
    "The model's call could not be read, and its turn was lost.",
    "malformed_function_call",
    type="upstream_error",
)


class Refused(WindlassError):
    """A request that is answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def bad_request(message: str, param: str | None = None, code: str | None = None) -> Refused:
    return Refused(Problem(400, message, code, param))


def headers_too_large(limit: int) -> Problem:
    return Problem(431, f"The headers are larger than {limit} bytes.", "headers_too_large")


def problem_of(error: BaseException) -> Problem:
    """The problem that an error stands for. What nobody expected is not told in detail."""
    match error:
        case Refused(problem=problem):
            return problem
        case NativeModeUnavailable(message=message, code=code, type=kind):
            return Problem(500, message, code, type=kind)
        case ModelError():
            return _upstream(error)
        case RoundLimitExceeded():
            return Problem(500, str(error), "max_rounds_exceeded", type="tool_error")
        case RunNotFound():
            return Problem(404, str(error), "run_not_found")
        case RunInterrupted():
            return Problem(500, str(error), "run_interrupted")
        case StorageError():  # where the file is, is the operator's to know
            return Problem(500, "The log of runs cannot be read or written.", "storage_failed")
        case TooManyRuns():
            return Problem(429, str(error), "too_many_runs", retry_after=1)
        case ConfigError():
            place = _PLACE.match(str(error))
            return Problem(400, str(error), param=place[1] if place else None)
        case _:
            return Problem(500, "The server failed while it answered this request.", INTERNAL)


def _upstream(error: ModelError) -> Problem:
    if isinstance(error, StreamCut):
        return Problem(502, error.message, "stream_cut", type="upstream_error")
    status = error.status
    if status is not None and status in _PASSED_ON:
        kind = None if status < 500 else "upstream_error"
        return Problem(status, error.message, error.code, type=kind, retry_after=error.retry_after)
    code = "upstream_refused_key" if status in (401, 403) else error.code or "upstream_failed"
    return Problem(502, error.message, code, type="upstream_error", retry_after=error.retry_after)
