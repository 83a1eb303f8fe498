"""The errors that a client receives on any wire, and their form in OpenAI's APIs. Pure."""

from msgspec import Struct

from windlass.errors import WindlassError
from windlass.jsontext import encode_json
from windlass.wires.fields import JsonObject


class Problem(Struct, frozen=True):
    """One error for a client; each wire has its own format for it."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None
    type: str | None = None
    retry_after: float | None = None


class InvalidRequest(WindlassError):
    """An invalid request; `param` is the wrong field."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.param, self.code = message, param, code


_ERROR_TYPES = {
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


def error_fields(problem: Problem) -> JsonObject:
    """An error in the form of OpenAI's APIs: chat completions and Responses."""
    other = "invalid_request_error" if 400 <= problem.status < 500 else "server_error"
    return {
        "message": problem.message,
        "type": problem.type or _ERROR_TYPES.get(problem.status, other),
        "param": problem.param,
        "code": problem.code,
    }


def error_body(problem: Problem) -> bytes:
    """The body of an error response in that form."""
    return encode_json({"error": error_fields(problem)})
