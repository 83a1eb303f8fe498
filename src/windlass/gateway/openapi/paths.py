"""Every path of the gateway with its operations. Pure."""

from typing import get_args

from msgspec import Struct

from windlass.events import StopReason
from windlass.gateway.openapi.schemas import (
    ERROR,
    FLAG,
    NON_EMPTY_TEXT,
    RUN_EVENT,
    TEXT,
    event_stream,
    one_of,
    ref,
)
from windlass.gateway.runs.lookup import RunStatus
from windlass.settings import Mode
from windlass.wires.fields import JsonObject

ALWAYS = (405, 431, 500)
GUARDED = (401, 403, *ALWAYS)
WITH_BODY = (400, 408, 413, 415)
STARTING = (404, 429, 503, *WITH_BODY, *GUARDED)
WAITING = (409, 422, 502, 504)
"""The statuses of a run that fails while its client waits for it."""

MODE_SCHEMA: JsonObject = {"type": "string", "enum": list(get_args(Mode))}
EVENT_STREAM = "text/event-stream"
JSON = "application/json"


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    id: str
    summary: str
    answer: JsonObject
    """The schemas of the response by content type."""
    status: int = 200
    headers: tuple[str, ...] = ()
    body: str | None = None
    """The name of the request body's schema."""
    parameters: tuple[JsonObject, ...] = ()
    problems: tuple[int, ...] = GUARDED
    more: JsonObject = {}
    """Further responses that are no errors, by status."""
    guarded: bool = True
    """Whether the operation needs a key."""


def json_answer(name: str) -> JsonObject:
    return {JSON: {"schema": ref(name)}}


def parameter(name: str, place: str, description: str, schema: JsonObject) -> JsonObject:
    required = {"name": name, "in": place, "required": place == "path"}
    return {**required, "description": description, "schema": schema}


_NUMBER: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_MODE = parameter(
    "X-Function-Calling-Mode", "header", "The function calling mode of this request.", MODE_SCHEMA
)
_SESSION = parameter(
    "X-Windlass-Session",
    "header",
    "A worker session; its tools are available to the run.",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
)
_RUN_ID = parameter("run_id", "path", "The run's id.", NON_EMPTY_TEXT)
_CHAT_ID = parameter("chat_id", "path", "The chat's id.", NON_EMPTY_TEXT)
_TOOL_NAME = parameter("name", "path", "The tool's name.", NON_EMPTY_TEXT)
_LAST_READ = "The number of the last event that the client has; the later ones are sent."
_CHAT_QUERY = (
    parameter("limit", "query", "The maximum number of entries, at most 1,000.", _NUMBER),
    parameter("before", "query", "The id of a chat; the list starts after it.", TEXT),
)
_RUN_QUERY = tuple(
    parameter(name, "query", description, schema)
    for name, description, schema in (
        ("limit", "The maximum number of entries, at most 1,000.", _NUMBER),
        ("before", "The id of a run; only runs that started before it are listed.", TEXT),
        ("status", "Only runs with this status.", one_of(*get_args(RunStatus))),
        ("reason", "Only runs that ended for this reason.", one_of(*get_args(StopReason))),
        ("model", "Only runs of this model.", TEXT),
        ("tool", "Only runs that called this tool, of the newest 1,000.", TEXT),
        ("q", "Only runs whose title contains this text; the case does not matter.", TEXT),
        ("summary", "Whether to include the summary of each run.", FLAG),
    )
)


def _ready(id: str) -> Operation:
    return Operation(
        id=id,
        summary="Returns whether the gateway accepts requests.",
        answer=json_answer("Health"),
        problems=ALWAYS,
        more={
            "503": {
                "description": "The gateway is shutting down, or cannot write the log of runs.",
                "content": json_answer("Health"),
            }
        },
        guarded=False,
    )


PATHS: dict[str, dict[str, Operation]] = {
    "/v1/chat/completions": {
        "post": Operation(
            id="createChatCompletion",
            summary="Returns the model's answer to a conversation. The gateway runs its tools.",
            body="ChatCompletionRequest",
            parameters=(_MODE, _SESSION),
            answer={
                **json_answer("ChatCompletion"),
                EVENT_STREAM: {
                    "schema": event_stream(ref("ChatCompletionChunk"), ref(ERROR), last="[DONE]")
                },
            },
            headers=("X-Windlass-Run-Id", "X-Function-Calling-Mode"),
            problems=(*STARTING, *WAITING),
        )
    },
    "/v1/models": {
        "get": Operation(
            id="listModels",
            summary="Lists the models that this key may use.",
            answer=json_answer("ModelList"),
        )
    },
    "/v1/models/{name}": {
        "get": Operation(
            id="getModel",
            summary="Returns one model.",
            parameters=(
                parameter(
                    "name", "path", "The model's name; it may contain slashes.", NON_EMPTY_TEXT
                ),
            ),
            answer=json_answer("Model"),
            problems=(404, *GUARDED),
        )
    },
    "/v1/runs": {
        "post": Operation(
            id="startRun",
            summary="Starts a run in the background. The body is that of a chat completion.",
            body="ChatCompletionRequest",
            parameters=(_MODE, _SESSION),
            status=202,
            answer=json_answer("Run"),
            headers=("Location",),
            problems=(409, *STARTING),
        ),
        "get": Operation(
            id="listRuns",
            summary="Lists the runs of this key, newest first.",
            parameters=_RUN_QUERY,
            answer=json_answer("RunList"),
            problems=(400, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}": {
        "get": Operation(
            id="getRun",
            summary="Returns a run; after its end, with its answer.",
            parameters=(_RUN_ID,),
            answer=json_answer("Run"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteRun",
            summary="Deletes a run that has ended.",
            parameters=(_RUN_ID,),
            answer=json_answer("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}/events": {
        "get": Operation(
            id="followRun",
            summary="Streams the events of a run: the stored ones, then new ones as they occur.",
            parameters=(
                _RUN_ID,
                parameter("after", "query", _LAST_READ, _NUMBER),
                parameter("Last-Event-ID", "header", _LAST_READ, _NUMBER),
            ),
            answer={EVENT_STREAM: {"schema": event_stream(ref(RUN_EVENT))}},
            headers=("X-Windlass-Run-Id",),
            problems=(400, 404, *GUARDED),
            more={"204": {"description": "The run has ended and has no later events."}},
        )
    },
    "/v1/runs/{run_id}/stop": {
        "post": Operation(
            id="stopRun",
            summary="Stops a run and its tools. A run that has ended does not change.",
            parameters=(_RUN_ID,),
            answer=json_answer("Run"),
            problems=(404, *GUARDED),
            more={
                "202": {
                    "description": "The stop is stored; the run's process has not acted on it yet.",
                    "content": json_answer("Run"),
                }
            },
        )
    },
    "/v1/runs/{run_id}/approve": {
        "post": Operation(
            id="decideCall",
            summary="Approves or rejects a call that waits for approval. Returns 409 if the call"
            " already has a decision or a result.",
            parameters=(_RUN_ID,),
            body="Decision",
            answer=json_answer("Run"),
            problems=(404, 409, *WITH_BODY, *GUARDED),
        )
    },
    "/v1/runs/{run_id}/export": {
        "get": Operation(
            id="exportRun",
            summary="Returns a run as one file, with its messages and its events.",
            parameters=(_RUN_ID,),
            answer=json_answer("Export"),
            headers=("Content-Disposition",),
            problems=(404, *GUARDED),
        )
    },
    "/v1/tools": {
        "get": Operation(
            id="listTools",
            summary="Lists the tools of the models that this key may use.",
            parameters=(_SESSION,),
            answer=json_answer("ToolList"),
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}": {
        "get": Operation(
            id="getTool",
            summary="Returns one tool with its last calls.",
            parameters=(_TOOL_NAME, _SESSION),
            answer=json_answer("Tool"),
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}/call": {
        "post": Operation(
            id="callTool",
            summary="Runs a tool and returns its result, by the same rules as for a model's call.",
            parameters=(_TOOL_NAME, _SESSION),
            body="HandCall",
            answer=json_answer("ToolAnswer"),
            problems=(409, *STARTING),
        )
    },
    "/v1/chats": {
        "get": Operation(
            id="listChats",
            summary="Lists the stored chats of this key; the chat with the newest run comes first.",
            parameters=_CHAT_QUERY,
            answer=json_answer("ChatList"),
            problems=(400, *GUARDED),
        )
    },
    "/v1/chats/{chat_id}": {
        "get": Operation(
            id="getChat",
            summary="Returns a stored chat with its messages. `chat_id` in a request continues it.",
            parameters=(_CHAT_ID,),
            answer=json_answer("Chat"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteChat",
            summary="Deletes a chat and its runs.",
            parameters=(_CHAT_ID,),
            answer=json_answer("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/health": {"get": _ready("health")},
    "/health/live": {
        "get": Operation(
            id="live",
            summary="Returns 200 while the process is alive.",
            answer=json_answer("Health"),
            problems=ALWAYS,
            guarded=False,
        )
    },
    "/health/ready": {"get": _ready("ready")},
    "/metrics": {
        "get": Operation(
            id="metrics",
            summary="Returns the metrics in Prometheus format. A key that is limited to some models"
            " needs the setting `metrics = true`.",
            answer={
                kind: {"schema": {"type": "string"}}
                for kind in ("text/plain", "application/openmetrics-text")
            },
        )
    },
    "/openapi.json": {
        "get": Operation(
            id="openapi",
            summary="Returns this document.",
            answer={JSON: {"schema": {"type": "object"}}},
        )
    },
}
