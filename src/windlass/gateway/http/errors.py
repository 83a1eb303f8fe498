"""Exceptions as HTTP problems, for every wire. Pure."""

import math
import re

from windlass.errors import (
    BudgetExceeded,
    ConfigError,
    ModelError,
    NativeModeUnavailable,
    OutputInvalid,
    RoundLimitExceeded,
    RunInterrupted,
    RunNotFound,
    StorageError,
    StreamCut,
    TooManyRuns,
    WindlassError,
)
from windlass.messaging import NatsUnreachable
from windlass.runs.control import ServiceClosing
from windlass.wires.errors import InvalidRequest, Problem

INTERNAL = "internal"
_PASSED_ON = frozenset({400, 404, 408, 409, 413, 422, 429, 503, 504})
"""The statuses of an upstream that are passed to the client. 401 and 403 concern the gateway's key.
"""
MAX_RETRY_SECONDS = 600.0
"""A client that must wait longer receives `x-should-retry: false`."""
OVERLOADED = 529
"""The status of Anthropic's API; clients of other APIs expect 503."""

_FIELD = re.compile(r"([a-z_]+(?:\[\d+\]|\.[a-z_]+)*): ")


SHUTTING_DOWN = Problem(503, "The gateway is shutting down.", "shutting_down", retry_after=5)
NATS_UNREACHABLE = Problem(
    503, "The gateway cannot reach NATS yet. Try again later.", "nats_unreachable", retry_after=2
)
MALFORMED_CALL = Problem(
    502,
    "The model made a malformed function call, and its turn was lost.",
    "malformed_function_call",
    type="upstream_error",
)


class Refused(WindlassError):
    """The gateway refuses a request and answers with `problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def problem_headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(problem.retry_after))).encode()))
        if problem.retry_after > MAX_RETRY_SECONDS:
            # The SDKs of OpenAI and Anthropic would repeat the request at once.
            headers.append((b"x-should-retry", b"false"))
    return headers


def headers_too_large(limit: int) -> Problem:
    return Problem(431, f"The headers are larger than {limit} bytes.", "headers_too_large")


def problem_of(error: BaseException) -> Problem:
    """The problem that the client receives for an error; an unexpected error gives no details."""
    match error:
        case Refused(problem=problem):
            return problem
        case InvalidRequest(message=message, param=param, code=code):
            return Problem(400, message, code, param)
        case NativeModeUnavailable(message=message, code=code, type=kind):
            return Problem(500, message, code, type=kind)
        case ModelError():
            return _upstream(error)
        case RoundLimitExceeded():
            return Problem(500, str(error), "max_rounds_exceeded", type="tool_error")
        case BudgetExceeded():
            # Not 500 or 429: clients repeat such requests automatically, which costs more.
            return Problem(402, str(error), "run_budget_exceeded", type="tool_error")
        case OutputInvalid():
            return Problem(502, str(error), "output_invalid", type="upstream_error")
        case RunNotFound():
            return Problem(404, str(error), "run_not_found")
        case RunInterrupted():
            return Problem(500, str(error), "run_interrupted")
        case NatsUnreachable():
            return NATS_UNREACHABLE
        case ServiceClosing():
            return SHUTTING_DOWN
        case StorageError():  # its message names the file, which is not for clients
            return Problem(500, "The log of runs cannot be read or written.", "storage_failed")
        case TooManyRuns():
            return Problem(429, str(error), "too_many_runs", retry_after=1)
        case ConfigError():
            field = _FIELD.match(str(error))
            return Problem(400, str(error), param=field[1] if field else None)
        case _:
            return Problem(500, "Internal error. The gateway's log has the details.", INTERNAL)


def _upstream(error: ModelError) -> Problem:
    if isinstance(error, StreamCut):
        return Problem(502, error.message, "stream_cut", type="upstream_error")
    status = 503 if error.status == OVERLOADED else error.status
    if status is not None and status in _PASSED_ON:
        kind = None if status < 500 else "upstream_error"
        return Problem(status, error.message, error.code, type=kind, retry_after=error.retry_after)
    code = "upstream_refused_key" if status in (401, 403) else error.code or "upstream_failed"
    return Problem(502, error.message, code, type="upstream_error", retry_after=error.retry_after)
