"""The JSON Schemas of the OpenAPI document. Pure.

The schemas of events, decisions, manual calls and exports are derived from their types.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from windlass.events import Event, Outcome, Phase, RunEvent, StopReason
from windlass.gateway.runs.lookup import Decision, RunStatus
from windlass.gateway.tools.calls import HandCall
from windlass.runs.export import Export
from windlass.settings import Mode
from windlass.wires.chat.write_events import FINISH_REASONS
from windlass.wires.fields import JsonObject

SCHEMAS_PATH = "#/components/schemas/"
ERROR = "Error"
RUN_EVENT = "RunEvent"

TEXT: JsonObject = {"type": "string"}
NON_EMPTY_TEXT: JsonObject = {**TEXT, "minLength": 1}
INTEGER: JsonObject = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
NUMBER: JsonObject = {"type": "number"}
FLAG: JsonObject = {"type": "boolean"}
OBJECT: JsonObject = {"type": "object"}


def ref(name: str) -> JsonObject:
    return {"$ref": f"{SCHEMAS_PATH}{name}"}


def list_of(item: JsonObject, **more: Any) -> JsonObject:
    return {"type": "array", "items": item, **more}


def one_of(*values: Any) -> JsonObject:
    return {"enum": list(values)}


def any_of(*schemas: JsonObject) -> JsonObject:
    return {"anyOf": list(schemas)}


def or_null(schema: JsonObject, description: str = "") -> JsonObject:
    return {**_described(description), **any_of(schema, {"type": "null"})}


def an_object(required: JsonObject, description: str = "", /, **optional: JsonObject) -> JsonObject:
    """An object, which may have further fields: later versions can add some."""
    return {
        **_described(description),
        "type": "object",
        "properties": {**required, **optional},
        **({"required": list(required)} if required else {}),
    }


def _described(description: str) -> JsonObject:
    return {"description": description} if description else {}


_NAME: JsonObject = {**TEXT, "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": 64}
_LIMIT: JsonObject = {**INTEGER, "minimum": 1}
_BASE64: JsonObject = {**TEXT, "contentEncoding": "base64"}
_CONTENT = any_of(TEXT, list_of(ref("ContentPart")))
_NAMED_FUNCTION = an_object({"function": an_object({"name": TEXT})}, type=one_of("function"))

_TOOL_EVENTS: JsonObject = {
    **FLAG,
    "description": "Adds events of the gateway's tools to chunks, in the field `windlass`."
    " The header `Accept: text/event-stream; events=windlass` has the same effect.",
}

_REQUEST = an_object(
    {
        "model": {
            **NON_EMPTY_TEXT,
            "description": "The name of a model; `GET /v1/models` lists them.",
        },
        "messages": list_of(ref("ChatMessage"), minItems=1),
    },
    "An OpenAI request. Other fields are passed to models that accept them.",
    tools=or_null(
        list_of(ref("ChatTool")), "Client tools. Their calls are returned as `tool_calls`."
    ),
    tool_choice=or_null(
        ref("ToolChoice"),
        "A forced choice applies until the call is made. It means a client tool if it allows one,"
        " else a server tool.",
    ),
    functions=or_null(list_of(ref("ChatFunction")), "The older form of `tools`."),
    function_call=or_null(
        any_of(one_of("auto", "none"), an_object({"name": TEXT})),
        "The older form of `tool_choice`.",
    ),
    parallel_tool_calls=or_null(FLAG),
    stream=or_null(FLAG),
    stream_options=or_null(an_object({}, include_usage=FLAG, include_tool_events=_TOOL_EVENTS)),
    background=or_null(FLAG, "Whether the run continues after its client disconnects."),
    chat_id=or_null(
        {**TEXT, "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "Continues a stored chat, or starts it. The gateway needs a log of runs (`[runs]`).",
    ),
    replaces=or_null(
        TEXT,
        "The id of a run of the chat. The new run replaces it and all later runs of the chat."
        " Only with `chat_id`.",
    ),
    n=or_null(one_of(1)),
    temperature=or_null(NUMBER),
    top_p=or_null(NUMBER),
    top_k=or_null(INTEGER),
    max_tokens=or_null(_LIMIT),
    max_completion_tokens=or_null(_LIMIT),
    stop=or_null(any_of(TEXT, list_of(TEXT))),
    seed=or_null(INTEGER),
    logprobs=or_null(FLAG),
    top_logprobs=or_null({**INTEGER, "minimum": 0}),
    service_tier=or_null(TEXT),
    response_format=or_null(ref("ResponseFormat")),
)

_MESSAGE = any_of(
    an_object({"role": one_of("system", "developer", "user"), "content": _CONTENT}),
    an_object(
        {"role": one_of("assistant")},
        content=or_null(_CONTENT),
        tool_calls=or_null(list_of(ref("ChatToolCall"))),
        function_call=or_null(
            an_object({"name": NON_EMPTY_TEXT}, "The older form of a call.", arguments=TEXT)
        ),
        reasoning_content=or_null(TEXT),
    ),
    an_object(
        {"role": one_of("tool"), "tool_call_id": NON_EMPTY_TEXT, "content": or_null(_CONTENT)},
        "The result of a call in an earlier message.",
    ),
    an_object(
        {"role": one_of("function"), "name": NON_EMPTY_TEXT, "content": or_null(_CONTENT)},
        "The older form of a result.",
    ),
)

_KINDS = ("text", "image_url", "input_audio", "file")
_CONTENT_PART = any_of(
    an_object({"type": one_of("text"), "text": TEXT}),
    an_object({"type": one_of("image_url"), "image_url": an_object({"url": TEXT})}),
    an_object(
        {
            "type": one_of("input_audio"),
            "input_audio": an_object({"data": _BASE64, "format": TEXT}),
        }
    ),
    an_object({"type": one_of("file"), "file": OBJECT}),
    an_object(
        {"type": {**NON_EMPTY_TEXT, "not": one_of(*_KINDS)}},
        "A type of part that is specific to the model's provider.",
    ),
)

_REQUEST_SCHEMAS: JsonObject = {
    "ChatCompletionRequest": _REQUEST,
    "ChatMessage": _MESSAGE,
    "ContentPart": _CONTENT_PART,
    "ChatToolCall": an_object(
        {
            "id": NON_EMPTY_TEXT,
            "type": one_of("function"),
            "function": an_object({"name": NON_EMPTY_TEXT, "arguments": TEXT}),
        }
    ),
    "ChatTool": an_object({"type": one_of("function"), "function": ref("ChatFunction")}),
    "ChatFunction": an_object(
        {"name": _NAME},
        description=or_null(TEXT),
        parameters=or_null(OBJECT, "A JSON Schema of type `object`."),
        strict=or_null(FLAG),
    ),
    "ToolChoice": any_of(
        one_of("auto", "none", "required"),
        _NAMED_FUNCTION,
        an_object(
            {
                "type": one_of("allowed_tools"),
                "allowed_tools": an_object(
                    {
                        "mode": one_of("auto", "required"),
                        "tools": list_of(_NAMED_FUNCTION, minItems=1),
                    }
                ),
            }
        ),
    ),
    "ResponseFormat": any_of(
        an_object({"type": one_of("text", "json_object")}),
        an_object(
            {
                "type": one_of("json_schema"),
                "json_schema": an_object({"schema": OBJECT}, name=TEXT, strict=or_null(FLAG)),
            }
        ),
    ),
}


def event_stream(*kinds: JsonObject, last: str | None = None) -> JsonObject:
    """The schema of a server-sent event: its data is JSON of one of `kinds`, or the text `last`."""
    data = {**TEXT, "contentMediaType": "application/json", "contentSchema": any_of(*kinds)}
    if last is not None:
        data = any_of(one_of(last), data)
    return an_object({"data": data}, event=TEXT, id=TEXT)


def schemas() -> JsonObject:
    return {**_REQUEST_SCHEMAS, **_RESPONSE_SCHEMAS, **_RUN_SCHEMAS, **_value_schemas()}


_LEGACY = "Replaces `tool_calls` if the request has `functions`."

_RESPONSE_SCHEMAS: JsonObject = {
    ERROR: an_object(
        {
            "error": an_object(
                {
                    "message": TEXT,
                    "type": TEXT,
                    "param": or_null(TEXT, "The invalid field of the request."),
                    "code": or_null(TEXT),
                }
            )
        },
        "The body of every error, and the last chunk of a stream that fails.",
    ),
    "Model": an_object(
        {
            "id": TEXT,
            "object": one_of("model"),
            "created": COUNT,
            "owned_by": TEXT,
            "windlass": an_object(
                {
                    "tools": list_of(TEXT),
                    "mode": ref("Mode"),
                    "max_rounds": COUNT,
                    "sessions": list_of(TEXT),
                },
                "The gateway's settings for the model.",
            ),
        }
    ),
    "Mode": one_of(*get_args(Mode)),
    "ModelList": an_object({"object": one_of("list"), "data": list_of(ref("Model"))}),
    "ChatCompletion": an_object(
        {
            "id": TEXT,
            "object": one_of("chat.completion"),
            "created": COUNT,
            "model": TEXT,
            "choices": list_of(
                an_object(
                    {
                        "index": COUNT,
                        "message": ref("AssistantMessage"),
                        "logprobs": or_null(OBJECT),
                        "finish_reason": ref("FinishReason"),
                    }
                )
            ),
        },
        usage=ref("TokenUsage"),
        service_tier=TEXT,
        system_fingerprint=TEXT,
    ),
    "AssistantMessage": an_object(
        {"role": one_of("assistant"), "content": or_null(TEXT), "refusal": or_null(TEXT)},
        tool_calls=list_of(ref("ChatToolCall"), minItems=1),
        function_call=an_object({"name": TEXT, "arguments": TEXT}, _LEGACY),
        reasoning_content=TEXT,
        images=list_of(OBJECT),
    ),
    "ChatCompletionChunk": an_object(
        {
            "id": TEXT,
            "object": one_of("chat.completion.chunk"),
            "created": COUNT,
            "model": TEXT,
            "choices": list_of(
                an_object(
                    {
                        "index": COUNT,
                        "delta": ref("ChatDelta"),
                        "logprobs": or_null(OBJECT),
                        "finish_reason": or_null(ref("FinishReason")),
                    }
                )
            ),
        },
        usage=or_null(ref("TokenUsage")),
        service_tier=TEXT,
        system_fingerprint=TEXT,
        windlass=ref(RUN_EVENT),
    ),
    "ChatDelta": an_object(
        {},
        role=one_of("assistant"),
        content=or_null(TEXT),
        refusal=or_null(TEXT),
        reasoning_content=TEXT,
        images=list_of(OBJECT),
        tool_calls=list_of(
            an_object(
                {"index": COUNT},
                id=TEXT,
                type=one_of("function"),
                function=an_object({}, name=TEXT, arguments=TEXT),
            )
        ),
        function_call=an_object({}, _LEGACY, name=TEXT, arguments=TEXT),
    ),
    "FinishReason": one_of(*dict.fromkeys(FINISH_REASONS.values()), "function_call"),
    "TokenUsage": an_object(
        {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
        "The sum of all rounds.",
        prompt_tokens_details=an_object({"cached_tokens": COUNT}),
        completion_tokens_details=an_object({"reasoning_tokens": COUNT}),
    ),
}

_RUN_SCHEMAS: JsonObject = {
    "Run": an_object(
        {
            "id": TEXT,
            "object": one_of("run"),
            "created": COUNT,
            "ended": or_null(COUNT),
            "model": TEXT,
            "status": one_of(*get_args(RunStatus)),
            "phase": one_of(*get_args(Phase)),
            "mode": or_null(ref("Mode"), "Null if it is unknown."),
            "events": {**COUNT, "description": "The number of events so far."},
            "title": {**TEXT, "description": "The first words of the prompt."},
            "chat_id": or_null(TEXT, "The stored chat that the run belongs to."),
        },
        stop_reason=or_null(one_of(*get_args(StopReason))),
        error=an_object({"message": TEXT, "type": TEXT}, param=or_null(TEXT)),
        response=ref("ChatCompletion"),
        summary=ref("RunSummary"),
    ),
    "RunSummary": an_object(
        {
            "seconds": NUMBER,
            "rounds": COUNT,
            "input_tokens": COUNT,
            "output_tokens": COUNT,
            "tools": {
                "type": "object",
                "additionalProperties": an_object(
                    {"calls": COUNT, "failures": COUNT, "seconds": NUMBER}
                ),
            },
        },
        "Figures of a run so far.",
    ),
    "RunList": an_object({"object": one_of("list"), "data": list_of(ref("Run"))}),
    "Chat": an_object(
        {
            "id": TEXT,
            "object": one_of("chat"),
            "created": COUNT,
            "updated": COUNT,
            "title": TEXT,
            "model": TEXT,
            "status": one_of("running", "ended"),
            "running": or_null(TEXT, "The id of the chat's active run."),
            "runs": COUNT,
        },
        messages=list_of(OBJECT, description="The messages in OpenAI's format."),
        run_ids=list_of(TEXT),
    ),
    "ChatList": an_object({"object": one_of("list"), "data": list_of(ref("Chat"))}),
    "Tool": an_object(
        {
            "name": TEXT,
            "object": one_of("tool"),
            "description": TEXT,
            "parameters": {**OBJECT, "description": "A JSON Schema."},
            "approve": {**FLAG, "description": "Whether each call needs approval."},
            "idempotent": FLAG,
            "models": list_of(TEXT, description="The models that offer the tool."),
            "origin": {**TEXT, "description": "`gateway`, `mcp:SERVER` or `worker:SESSION`."},
            "calls": an_object(
                {"count": COUNT, "failures": COUNT, "last": list_of(ref("LastCall"), maxItems=20)},
                "The calls of this key: its newest 200 runs and its manual calls.",
            ),
        }
    ),
    "ToolList": an_object({"object": one_of("list"), "data": list_of(ref("Tool"))}),
    "LastCall": an_object(
        {
            "run_id": or_null(TEXT, "Null for a manual call."),
            "call_id": TEXT,
            "time": NUMBER,
            "seconds": NUMBER,
            "outcome": ref("Outcome"),
            "arguments": any_of(OBJECT, TEXT),
            "response": or_null(OBJECT, "Shortened if it is long."),
            "by_hand": FLAG,
        }
    ),
    "ToolAnswer": an_object(
        {
            "call_id": TEXT,
            "name": TEXT,
            "outcome": ref("Outcome"),
            "response": OBJECT,
            "parts": list_of({"anyOf": [ref("InlineData"), ref("FileData")]}),
            "seconds": NUMBER,
            "effect_unknown": FLAG,
            "progress": list_of(
                an_object(
                    {
                        "time": NUMBER,
                        "progress": or_null(NUMBER),
                        "message": or_null(TEXT),
                        "data": {},
                    }
                )
            ),
        },
        crashed={
            **FLAG,
            "description": "Whether the tool crashed; its traceback is in the gateway's log.",
        },
    ),
    "Outcome": one_of(*get_args(Outcome)),
    "Deleted": an_object(
        {"id": TEXT, "object": one_of("run.deleted", "chat.deleted"), "deleted": one_of(True)}
    ),
    "Health": an_object({"status": one_of("ok", "shutting down")}),
}


def _value_schemas() -> JsonObject:
    kinds: tuple[type[Event], ...] = get_args(RunEvent)
    values = (*kinds, Decision, HandCall, Export)
    _, made = msgspec.json.schema_components(values, ref_template=SCHEMAS_PATH + "{name}")
    events = {kind.__name__: _as_sent(made[kind.__name__], kind) for kind in kinds}
    tags = {str(kind.__struct_config__.tag): f"{SCHEMAS_PATH}{kind.__name__}" for kind in kinds}
    any_event = {
        "oneOf": [{"$ref": place} for place in tags.values()],
        "discriminator": {"propertyName": "event", "mapping": tags},
    }
    return {**made, **events, RUN_EVENT: any_event}


def _as_sent(schema: Mapping[str, Any], kind: type[Event]) -> JsonObject:
    """Adds the fields that are constant for each kind of event, as clients receive them."""
    constant = {"type": one_of(kind.type), "done": one_of(kind.done)}
    return {
        **schema,
        "properties": {**schema["properties"], **constant},
        "required": [*schema["required"], *constant, "seq", "time"],
    }
