"""The OpenAPI document of the gateway's own endpoints. Pure."""

import functools

from windlass.gateway.openapi.operations import MODE_WORDS, Operation, json_answer
from windlass.gateway.openapi.paths import PATHS
from windlass.gateway.openapi.schemas import ERROR, schemas
from windlass.wires.fields import JsonObject

__all__ = ["PATHS", "PROBLEMS", "openapi_document"]

INFO: JsonObject = {
    "title": "Windlass gateway",
    "version": "1",
    "description": "Chat completions whose tools run on the server, and the runs behind them.",
}

SECURITY_SCHEMES: JsonObject = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
ANY_KEY: list[JsonObject] = [{"bearer": []}, {"apiKey": []}, {}]
"""The last: a gateway without keys, which only its own machine can reach, asks for none."""

PROBLEMS: dict[int, str] = {
    400: "The request cannot be read; `param` names the field.",
    401: "No key, or not one of this gateway.",
    403: "A web page of another origin without a key, or a session that is not this key's.",
    404: "There is nothing of this name for this key.",
    405: "The address takes another method.",
    408: "The body, or the upstream's answer, did not come in time.",
    409: "Nothing waits for this decision, a tool asks for a yes, a run must end first, or the"
    " upstream was in conflict with the request.",
    413: "The body is too large.",
    415: "The body is not sent as JSON.",
    422: "The upstream could not work with the request.",
    429: "Too many requests or runs.",
    431: "The headers are too large.",
    500: "The gateway failed, a tool limit was reached, or native function calling failed.",
    502: "The upstream failed.",
    503: "The gateway or the upstream is full, or the gateway is shutting down.",
    504: "The run, or the upstream, took too long.",
}
HEADERS: JsonObject = {
    "X-Request-Id": {"schema": {"type": "string"}},
    "X-Windlass-Run-Id": {
        "description": "The run, which can be read at /v1/runs while it is known.",
        "schema": {"type": "string"},
    },
    "X-Function-Calling-Mode": {
        "description": "How tools were brought to the model.",
        "schema": MODE_WORDS,
    },
    "Retry-After": {
        "description": "Seconds after which it is worth trying again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Content-Disposition": {"schema": {"type": "string"}},
    "Location": {"schema": {"type": "string"}},
    "Allow": {"schema": {"type": "string"}},
}

ON_PROBLEMS: dict[int, str] = {405: "Allow", 429: "Retry-After", 503: "Retry-After"}


@functools.cache
def openapi_document() -> JsonObject:
    """The document, as OpenAPI 3.1 has it."""
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {
            path: {method: _operation(each) for method, each in methods.items()}
            for path, methods in PATHS.items()
        },
        "components": {
            "schemas": schemas(),
            "headers": HEADERS,
            "responses": {str(status): _problem(status) for status in PROBLEMS},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _operation(operation: Operation) -> JsonObject:
    answer = {
        "description": operation.says,
        "headers": _headers("X-Request-Id", *operation.headers),
        "content": operation.answer,
    }
    responses = {
        str(operation.status): answer,
        **{str(each): _reference("responses", str(each)) for each in operation.problems},
        **operation.more,
    }
    return {
        "operationId": operation.id,
        "summary": operation.says,
        "security": ANY_KEY if operation.guarded else [],
        **({"parameters": list(operation.parameters)} if operation.parameters else {}),
        **({"requestBody": _body(operation.body)} if operation.body else {}),
        "responses": dict(sorted(responses.items())),
    }


def _body(name: str) -> JsonObject:
    return {"required": True, "content": json_answer(name)}


def _problem(status: int) -> JsonObject:
    names = ("X-Request-Id", *filter(None, [ON_PROBLEMS.get(status)]))
    return {
        "description": PROBLEMS[status],
        "headers": _headers(*names),
        "content": json_answer(ERROR),
    }


def _headers(*names: str) -> JsonObject:
    return {name: _reference("headers", name) for name in names}


def _reference(kind: str, name: str) -> JsonObject:
    return {"$ref": f"#/components/{kind}/{name}"}
