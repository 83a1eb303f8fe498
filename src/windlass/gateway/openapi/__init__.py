"""The OpenAPI document of the gateway's own endpoints. Pure."""

import functools
from typing import get_args

from msgspec import Struct

from windlass.gateway.openapi.schemas import ERROR, RUN_EVENT, event_stream, schemas
from windlass.gateway.openapi.words import ref
from windlass.models.fields import JsonObject
from windlass.settings import Mode

__all__ = ["openapi_document"]

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
    409: "Nothing waits for this decision, a run must end first, or the upstream was in conflict"
    " with the request.",
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
ALWAYS = (405, 431, 500)
GUARDED = (401, 403, *ALWAYS)
WITH_BODY = (400, 408, 413, 415)
STARTING = (404, 429, 503, *WITH_BODY, *GUARDED)
WAITED_FOR = (409, 422, 502, 504)
"""What a run can fail with while its client waits for it."""

MODE_WORDS: JsonObject = {"type": "string", "enum": list(get_args(Mode))}
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
    "Location": {"schema": {"type": "string"}},
    "Allow": {"schema": {"type": "string"}},
}

EVENT_STREAM = "text/event-stream"
JSON = "application/json"


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one address."""

    id: str
    says: str
    answer: JsonObject
    """By content type."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """The name of its schema."""
    parameters: tuple[JsonObject, ...] = ()
    problems: tuple[int, ...] = GUARDED
    more: JsonObject = {}
    """Answers that are no problem, by status."""
    guarded: bool = True


def _json(name: str) -> JsonObject:
    return {JSON: {"schema": ref(name)}}


def _parameter(name: str, place: str, says: str, schema: JsonObject) -> JsonObject:
    required = place == "path"
    return {"name": name, "in": place, "required": required, "description": says, "schema": schema}


_TEXT: JsonObject = {"type": "string", "minLength": 1}
_NUMBER: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_MODE = _parameter(
    "X-Function-Calling-Mode", "header", "How tools are brought to the model.", MODE_WORDS
)
_SESSION = _parameter(
    "X-Windlass-Session",
    "header",
    "A session of workers whose tools the run gets.",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
)
_RUN_ID = _parameter("run_id", "path", "The run's id.", _TEXT)
_CHAT_ID = _parameter("chat_id", "path", "The chat's id.", _TEXT)
_STOPPED_AT = "The number of the last event that was read; those after it are sent."


def _ready(id: str) -> Operation:
    return Operation(
        id=id,
        says="Whether the gateway takes requests.",
        answer=_json("Health"),
        problems=ALWAYS,
        more={"503": {"description": "It is shutting down.", "content": _json("Health")}},
        guarded=False,
    )


PATHS: dict[str, dict[str, Operation]] = {
    "/v1/chat/completions": {
        "post": Operation(
            id="createChatCompletion",
            says="Answers a conversation; the gateway's tools run on the way.",
            body="ChatCompletionRequest",
            parameters=(_MODE, _SESSION),
            answer={
                **_json("ChatCompletion"),
                EVENT_STREAM: {
                    "schema": event_stream(ref("ChatCompletionChunk"), ref(ERROR), last="[DONE]")
                },
            },
            headers=("X-Windlass-Run-Id", "X-Function-Calling-Mode"),
            problems=(*STARTING, *WAITED_FOR),
        )
    },
    "/v1/models": {
        "get": Operation(
            id="listModels", says="The models that this key may use.", answer=_json("ModelList")
        )
    },
    "/v1/models/{name}": {
        "get": Operation(
            id="getModel",
            says="One model.",
            parameters=(
                _parameter("name", "path", "The model's name; it may have slashes.", _TEXT),
            ),
            answer=_json("Model"),
            problems=(404, *GUARDED),
        )
    },
    "/v1/runs": {
        "post": Operation(
            id="startRun",
            says="Starts a run, and does not wait for it. The body is a chat completion's.",
            body="ChatCompletionRequest",
            parameters=(_MODE, _SESSION),
            status=202,
            answer=_json("Run"),
            headers=("Location",),
            problems=(409, *STARTING),
        ),
        "get": Operation(
            id="listRuns",
            says="The runs of this key, newest first.",
            parameters=(_parameter("limit", "query", "How many, at most 1,000.", _NUMBER),),
            answer=_json("RunList"),
            problems=(400, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}": {
        "get": Operation(
            id="getRun",
            says="A run, with its answer when it has ended.",
            parameters=(_RUN_ID,),
            answer=_json("Run"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteRun",
            says="Forgets a run that has ended.",
            parameters=(_RUN_ID,),
            answer=_json("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}/events": {
        "get": Operation(
            id="followRun",
            says="Every event of a run after a number, then each as it comes.",
            parameters=(
                _RUN_ID,
                _parameter("after", "query", _STOPPED_AT, _NUMBER),
                _parameter("Last-Event-ID", "header", _STOPPED_AT, _NUMBER),
            ),
            answer={EVENT_STREAM: {"schema": event_stream(ref(RUN_EVENT))}},
            headers=("X-Windlass-Run-Id",),
            problems=(400, 404, *GUARDED),
            more={"204": {"description": "The run has ended, and there is no event after that."}},
        )
    },
    "/v1/runs/{run_id}/stop": {
        "post": Operation(
            id="stopRun",
            says="Ends a run now, with its tools. One that has ended stays as it is.",
            parameters=(_RUN_ID,),
            answer=_json("Run"),
            problems=(404, *GUARDED),
        )
    },
    "/v1/runs/{run_id}/approve": {
        "post": Operation(
            id="decideCall",
            says="Says yes or no to a call that waits for a person.",
            parameters=(_RUN_ID,),
            body="Decision",
            answer=_json("Run"),
            problems=(404, 409, *WITH_BODY, *GUARDED),
        )
    },
    "/v1/chats": {
        "get": Operation(
            id="listChats", says="The stored chats of this key.", answer=_json("ChatList")
        )
    },
    "/v1/chats/{chat_id}": {
        "get": Operation(
            id="getChat",
            says="A stored chat with its messages. A request goes on with it by `chat_id`.",
            parameters=(_CHAT_ID,),
            answer=_json("Chat"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteChat",
            says="Forgets a chat and its runs.",
            parameters=(_CHAT_ID,),
            answer=_json("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/health": {"get": _ready("health")},
    "/health/live": {
        "get": Operation(
            id="live",
            says="Whether the process answers at all.",
            answer=_json("Health"),
            problems=ALWAYS,
            guarded=False,
        )
    },
    "/health/ready": {"get": _ready("ready")},
    "/metrics": {
        "get": Operation(
            id="metrics",
            says="What is counted and measured, for Prometheus.",
            answer={
                kind: {"schema": {"type": "string"}}
                for kind in ("text/plain", "application/openmetrics-text")
            },
        )
    },
    "/openapi.json": {
        "get": Operation(
            id="openapi", says="This document.", answer={JSON: {"schema": {"type": "object"}}}
        )
    },
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
    return {"required": True, "content": _json(name)}


def _problem(status: int) -> JsonObject:
    names = ("X-Request-Id", *filter(None, [ON_PROBLEMS.get(status)]))
    return {
        "description": PROBLEMS[status],
        "headers": _headers(*names),
        "content": _json(ERROR),
    }


def _headers(*names: str) -> JsonObject:
    return {name: _reference("headers", name) for name in names}


def _reference(kind: str, name: str) -> JsonObject:
    return {"$ref": f"#/components/{kind}/{name}"}
