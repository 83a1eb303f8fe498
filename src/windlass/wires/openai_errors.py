"""Errors over HTTP in the form of OpenAI's APIs: chat completions and Responses. Pure."""

from windlass.jsontext import encode_json
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject

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
    """An error in the form that OpenAI's clients read."""
    other = "invalid_request_error" if 400 <= problem.status < 500 else "server_error"
    return {
        "message": problem.message,
        "type": problem.type or _ERROR_TYPES.get(problem.status, other),
        "param": problem.param,
        "code": problem.code,
    }


def error_body(problem: Problem) -> bytes:
    """The body of an error response."""
    return encode_json({"error": error_fields(problem)})
