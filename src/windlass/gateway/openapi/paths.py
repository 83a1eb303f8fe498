"""Every address of the gateway, and what its methods do. Pure."""

from typing import get_args

from windlass.events import StopReason
from windlass.gateway.openapi.operations import (
    ALWAYS,
    EVENT_STREAM,
    GUARDED,
    JSON,
    MODE_WORDS,
    STARTING,
    WAITED_FOR,
    WITH_BODY,
    Operation,
    json_answer,
    parameter,
)
from windlass.gateway.openapi.schemas import ERROR, RUN_EVENT, event_stream
from windlass.gateway.openapi.words import FLAG, TEXT, one_of, ref
from windlass.gateway.runs.lookup import RunStatus
from windlass.wires.fields import JsonObject

__all__ = ["PATHS"]

_TEXT: JsonObject = {"type": "string", "minLength": 1}
_NUMBER: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
_MODE = parameter(
    "X-Function-Calling-Mode", "header", "How tools are brought to the model.", MODE_WORDS
)
_SESSION = parameter(
    "X-Windlass-Session",
    "header",
    "A session of workers whose tools the run gets.",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
)
_RUN_ID = parameter("run_id", "path", "The run's id.", _TEXT)
_CHAT_ID = parameter("chat_id", "path", "The chat's id.", _TEXT)
_TOOL_NAME = parameter("name", "path", "The tool's name.", _TEXT)
_STOPPED_AT = "The number of the last event that was read; those after it are sent."
_CHAT_QUERY = (
    parameter("limit", "query", "How many, at most 1,000.", _NUMBER),
    parameter("before", "query", "A chat: those that come after it in the list.", TEXT),
)
_RUN_QUERY = tuple(
    parameter(name, "query", says, schema)
    for name, says, schema in (
        ("limit", "How many, at most 1,000.", _NUMBER),
        ("before", "A run: those that began before it.", TEXT),
        ("status", "How it stands with them.", one_of(*get_args(RunStatus))),
        ("reason", "Why they ended.", one_of(*get_args(StopReason))),
        ("model", "The model that was asked.", TEXT),
        ("tool", "A tool that they have called; the newest 1,000 are looked through.", TEXT),
        ("q", "What their title has in it, in capitals or not.", TEXT),
        ("summary", "Whether each comes with its summary.", FLAG),
    )
)


def _ready(id: str) -> Operation:
    return Operation(
        id=id,
        says="Whether the gateway takes requests.",
        answer=json_answer("Health"),
        problems=ALWAYS,
        more={
            "503": {
                "description": "It is shutting down, or the log of runs cannot be written.",
                "content": json_answer("Health"),
            }
        },
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
                **json_answer("ChatCompletion"),
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
            id="listModels",
            says="The models that this key may use.",
            answer=json_answer("ModelList"),
        )
    },
    "/v1/models/{name}": {
        "get": Operation(
            id="getModel",
            says="One model.",
            parameters=(
                parameter("name", "path", "The model's name; it may have slashes.", _TEXT),
            ),
            answer=json_answer("Model"),
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
            answer=json_answer("Run"),
            headers=("Location",),
            problems=(409, *STARTING),
        ),
        "get": Operation(
            id="listRuns",
            says="The runs of this key, newest first.",
            parameters=_RUN_QUERY,
            answer=json_answer("RunList"),
            problems=(400, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}": {
        "get": Operation(
            id="getRun",
            says="A run, with its answer when it has ended.",
            parameters=(_RUN_ID,),
            answer=json_answer("Run"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteRun",
            says="Forgets a run that has ended.",
            parameters=(_RUN_ID,),
            answer=json_answer("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/v1/runs/{run_id}/events": {
        "get": Operation(
            id="followRun",
            says="Every event of a run after a number, then each as it comes.",
            parameters=(
                _RUN_ID,
                parameter("after", "query", _STOPPED_AT, _NUMBER),
                parameter("Last-Event-ID", "header", _STOPPED_AT, _NUMBER),
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
            answer=json_answer("Run"),
            problems=(404, *GUARDED),
            more={
                "202": {
                    "description": "The stop is stored; the run's process has not obeyed it yet.",
                    "content": json_answer("Run"),
                }
            },
        )
    },
    "/v1/runs/{run_id}/approve": {
        "post": Operation(
            id="decideCall",
            says="Says yes or no to a call that waits for a person. A call that has a decision or"
            " an answer already is a 409.",
            parameters=(_RUN_ID,),
            body="Decision",
            answer=json_answer("Run"),
            problems=(404, 409, *WITH_BODY, *GUARDED),
        )
    },
    "/v1/runs/{run_id}/export": {
        "get": Operation(
            id="exportRun",
            says="A run as one file: what was said and done, and the events themselves.",
            parameters=(_RUN_ID,),
            answer=json_answer("Export"),
            headers=("Content-Disposition",),
            problems=(404, *GUARDED),
        )
    },
    "/v1/tools": {
        "get": Operation(
            id="listTools",
            says="The tools of the models that this key may use.",
            parameters=(_SESSION,),
            answer=json_answer("ToolList"),
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}": {
        "get": Operation(
            id="getTool",
            says="One tool, with its last calls.",
            parameters=(_TOOL_NAME, _SESSION),
            answer=json_answer("Tool"),
            problems=(400, 404, *GUARDED),
        )
    },
    "/v1/tools/{name}/call": {
        "post": Operation(
            id="callTool",
            says="Runs a tool by hand, by the same rules as for a model, and waits for it.",
            parameters=(_TOOL_NAME, _SESSION),
            body="HandCall",
            answer=json_answer("ToolAnswer"),
            problems=(409, *STARTING),
        )
    },
    "/v1/chats": {
        "get": Operation(
            id="listChats",
            says="The stored chats of this key; that with the newest run is the first.",
            parameters=_CHAT_QUERY,
            answer=json_answer("ChatList"),
            problems=(400, *GUARDED),
        )
    },
    "/v1/chats/{chat_id}": {
        "get": Operation(
            id="getChat",
            says="A stored chat with its messages. A request goes on with it by `chat_id`.",
            parameters=(_CHAT_ID,),
            answer=json_answer("Chat"),
            problems=(404, *GUARDED),
        ),
        "delete": Operation(
            id="deleteChat",
            says="Forgets a chat and its runs.",
            parameters=(_CHAT_ID,),
            answer=json_answer("Deleted"),
            problems=(404, 409, *GUARDED),
        ),
    },
    "/health": {"get": _ready("health")},
    "/health/live": {
        "get": Operation(
            id="live",
            says="Whether the process answers at all.",
            answer=json_answer("Health"),
            problems=ALWAYS,
            guarded=False,
        )
    },
    "/health/ready": {"get": _ready("ready")},
    "/metrics": {
        "get": Operation(
            id="metrics",
            says="What is counted and measured, for Prometheus: for keys that are not restricted.",
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
