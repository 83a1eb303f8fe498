"""The OpenAPI document of the gateway's endpoints. Pure."""

import functools

from windlass.gateway.openapi.paths import MODE_SCHEMA, PATHS, Operation, json_answer
from windlass.gateway.openapi.schemas import ERROR, schemas
from windlass.wires.fields import JsonObject

INFO: JsonObject = {
    "title": "Windlass gateway",
    "version": "1",
    "description": "Chat completions with tools that run on the server, and the runs behind them.",
}

SECURITY_SCHEMES: JsonObject = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
ANY_KEY: list[JsonObject] = [{"bearer": []}, {"apiKey": []}, {}]
"""The last entry is for a gateway without keys, which only its own machine can reach."""

PROBLEMS: dict[int, str] = {
    400: "The request is invalid; `param` names the field.",
    401: "The key is missing or invalid.",
    403: "The request comes from a web page of another origin, or the key may not use the session.",
    404: "No such resource exists, or this key may not use it.",
    405: "Method not allowed; the header `Allow` lists the methods of the path.",
    408: "The body or the upstream's answer did not arrive in time.",
    409: "The call is not waiting for approval, the tool needs approval, a run is still active, or"
    " the upstream reported a conflict.",
    413: "The body is too large.",
    415: "The content type of the body is not JSON.",
    422: "The upstream could not process the request.",
    429: "Too many requests or runs.",
    431: "The headers are too large.",
    500: "The gateway failed, a tool limit was reached, or native function calling failed.",
    502: "The upstream failed.",
    503: "The gateway or the upstream is overloaded, or the gateway is shutting down.",
    504: "The run or the upstream took too long.",
}
HEADERS: JsonObject = {
    "X-Request-Id": {"schema": {"type": "string"}},
    "X-Windlass-Run-Id": {
        "description": "The id of the run; `GET /v1/runs/{run_id}` returns the run.",
        "schema": {"type": "string"},
    },
    "X-Function-Calling-Mode": {
        "description": "The function calling mode that was used.",
        "schema": MODE_SCHEMA,
    },
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Content-Disposition": {"schema": {"type": "string"}},
    "Location": {"schema": {"type": "string"}},
    "Allow": {"schema": {"type": "string"}},
}

PROBLEM_HEADERS: dict[int, str] = {405: "Allow", 429: "Retry-After", 503: "Retry-After"}


@functools.cache
def openapi_document() -> JsonObject:
    """The document, in OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {
            path: {method: _operation(operation) for method, operation in methods.items()}
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
        "description": operation.summary,
        "headers": _headers("X-Request-Id", *operation.headers),
        "content": operation.answer,
    }
    responses = {
        str(operation.status): answer,
        **{str(code): _reference("responses", str(code)) for code in operation.problems},
        **operation.more,
    }
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        "security": ANY_KEY if operation.guarded else [],
        **({"parameters": list(operation.parameters)} if operation.parameters else {}),
        **({"requestBody": _body(operation.body)} if operation.body else {}),
        "responses": dict(sorted(responses.items())),
    }


def _body(name: str) -> JsonObject:
    return {"required": True, "content": json_answer(name)}


def _problem(status: int) -> JsonObject:
    names = ("X-Request-Id", *filter(None, [PROBLEM_HEADERS.get(status)]))
    return {
        "description": PROBLEMS[status],
        "headers": _headers(*names),
        "content": json_answer(ERROR),
    }


def _headers(*names: str) -> JsonObject:
    return {name: _reference("headers", name) for name in names}


def _reference(kind: str, name: str) -> JsonObject:
    return {"$ref": f"#/components/{kind}/{name}"}
