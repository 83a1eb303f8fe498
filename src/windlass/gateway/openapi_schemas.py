"""The schemas of the OpenAPI document. Pure.

Events and decisions are described by the values themselves, so that their description cannot
differ from them; what goes over OpenAI's wire is described here.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from windlass.events import Event, Phase, RunEvent, StopReason
from windlass.gateway.answer import FINISH_REASONS
from windlass.gateway.run_routes import Decision
from windlass.models.fields import JsonObject
from windlass.settings import Mode

__all__ = ["ERROR", "RUN_EVENT", "event_stream", "list_of", "ref", "schemas"]

ERROR = "Error"
RUN_EVENT = "RunEvent"
_PLACE = "#/components/schemas/"

_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_NUMBER: JsonObject = {"type": "number"}
_FLAG: JsonObject = {"type": "boolean"}
_OBJECT: JsonObject = {"type": "object"}
_NULL: JsonObject = {"type": "null"}


def ref(name: str) -> JsonObject:
    return {"$ref": f"{_PLACE}{name}"}


def list_of(item: JsonObject, **more: Any) -> JsonObject:
    return {"type": "array", "items": item, **more}


def event_stream(*kinds: JsonObject) -> JsonObject:
    """A stream of server-sent events, as the list of them. Their data is JSON of these kinds."""
    data = {
        **_TEXT,
        "contentMediaType": "application/json",
        "contentSchema": kinds[0] if len(kinds) == 1 else {"anyOf": list(kinds)},
    }
    return list_of(_object({"data": data}, event=_TEXT, id=_TEXT))


def schemas() -> JsonObject:
    """Every schema by its name."""
    return {**_REQUEST, **_ANSWER, **_RUNS, **_value_schemas()}


def _object(required: JsonObject, says: str = "", **optional: JsonObject) -> JsonObject:
    """An object. Fields beside these are allowed: both sides may know more than is said here."""
    described: JsonObject = {"description": says} if says else {}
    return described | {
        "type": "object",
        "properties": {**required, **optional},
        **({"required": list(required)} if required else {}),
    }


def _or_null(schema: JsonObject, says: str = "") -> JsonObject:
    described: JsonObject = {"description": says} if says else {}
    return {**described, "anyOf": [schema, _NULL]}


def _one_of(*values: Any) -> JsonObject:
    return {"enum": list(values)}


_NAMED_FUNCTION = _object({"function": _object({"name": _TEXT})}, type=_one_of("function"))

_REQUEST: JsonObject = {
    "ChatCompletionRequest": _object(
        {
            "model": {**_TEXT, "minLength": 1, "description": "A name out of `GET /v1/models`."},
            "messages": list_of(ref("ChatMessage"), minItems=1),
        },
        "OpenAI's request. Fields that are not named here go to models that know them.",
        tools=_or_null(
            list_of(ref("ChatTool")),
            "The client's own tools. Calls of them come back as `tool_calls`.",
        ),
        tool_choice=_or_null(ref("ToolChoice")),
        functions=_or_null(list_of(ref("ChatFunction")), "The older form of `tools`."),
        function_call=_or_null(
            {"anyOf": [_one_of("auto", "none"), _object({"name": _TEXT})]},
            "The older form of `tool_choice`.",
        ),
        parallel_tool_calls=_or_null(_FLAG),
        stream=_or_null(_FLAG),
        stream_options=_or_null(
            _object(
                {},
                include_usage=_FLAG,
                include_tool_events={
                    **_FLAG,
                    "description": "Shows what the gateway's own tools do, in the field `windlass`"
                    " of chunks. `Accept: text/event-stream; events=windlass` asks for it, too.",
                },
            )
        ),
        background=_or_null(_FLAG, "Lets the run go on when its client goes away."),
        n=_or_null(_one_of(1)),
        temperature=_or_null(_NUMBER),
        top_p=_or_null(_NUMBER),
        top_k=_or_null({"type": "integer"}),
        max_tokens=_or_null({"type": "integer", "minimum": 1}),
        max_completion_tokens=_or_null({"type": "integer", "minimum": 1}),
        stop=_or_null({"anyOf": [_TEXT, list_of(_TEXT)]}),
        seed=_or_null({"type": "integer"}),
        response_format=_or_null(ref("ResponseFormat")),
    ),
    "ChatMessage": _object(
        {"role": _one_of("system", "developer", "user", "assistant", "tool", "function")},
        content=_or_null({"anyOf": [_TEXT, list_of(ref("ContentPart"))]}),
        name=_or_null(_TEXT),
        tool_calls=_or_null(list_of(ref("ChatToolCall"))),
        tool_call_id=_or_null(_TEXT, "Of a message of the role `tool`: the call that it answers."),
    ),
    "ContentPart": _object(
        {"type": {**_TEXT, "minLength": 1}},
        "A piece of a message: `text`, `image_url`, `input_audio`, `file`, or a provider's own.",
        text=_TEXT,
        image_url=_object({"url": _TEXT}),
        input_audio=_object({"data": _TEXT, "format": _TEXT}),
        file=_OBJECT,
    ),
    "ChatTool": _object({"type": _one_of("function"), "function": ref("ChatFunction")}),
    "ChatFunction": _object(
        {"name": {**_TEXT, "minLength": 1}},
        description=_or_null(_TEXT),
        parameters=_or_null(_OBJECT, "A JSON Schema of type `object`."),
        strict=_or_null(_FLAG),
    ),
    "ToolChoice": {
        "anyOf": [
            _one_of("auto", "none", "required"),
            _NAMED_FUNCTION,
            _object(
                {
                    "type": _one_of("allowed_tools"),
                    "allowed_tools": _object(
                        {
                            "mode": _one_of("auto", "required"),
                            "tools": list_of(_NAMED_FUNCTION, minItems=1),
                        }
                    ),
                }
            ),
        ]
    },
    "ResponseFormat": {
        "anyOf": [
            _object({"type": _one_of("text", "json_object")}),
            _object(
                {
                    "type": _one_of("json_schema"),
                    "json_schema": _object({"schema": _OBJECT}, name=_TEXT, strict=_or_null(_FLAG)),
                }
            ),
        ]
    },
}

_ANSWER: JsonObject = {
    ERROR: _object(
        {
            "error": _object(
                {
                    "message": _TEXT,
                    "type": _TEXT,
                    "param": _or_null(_TEXT, "The field of the request that is wrong."),
                    "code": _or_null(_TEXT),
                }
            )
        },
        "Every error, also one in the middle of a stream.",
    ),
    "Model": _object(
        {
            "id": _TEXT,
            "object": _one_of("model"),
            "created": _COUNT,
            "owned_by": _TEXT,
        }
    ),
    "ModelList": _object({"object": _one_of("list"), "data": list_of(ref("Model"))}),
    "ChatToolCall": _object(
        {
            "id": _TEXT,
            "type": _one_of("function"),
            "function": _object({"name": _TEXT, "arguments": _TEXT}),
        }
    ),
    "ChatCompletion": _object(
        {
            "id": _TEXT,
            "object": _one_of("chat.completion"),
            "created": _COUNT,
            "model": _TEXT,
            "choices": list_of(
                _object(
                    {
                        "index": _COUNT,
                        "message": ref("AssistantMessage"),
                        "logprobs": _or_null(_OBJECT),
                        "finish_reason": ref("FinishReason"),
                    }
                )
            ),
        },
        usage=ref("TokenUsage"),
    ),
    "AssistantMessage": _object(
        {"role": _one_of("assistant"), "content": _or_null(_TEXT), "refusal": _or_null(_TEXT)},
        tool_calls=list_of(ref("ChatToolCall"), minItems=1),
        reasoning_content=_TEXT,
        images=list_of(_OBJECT),
    ),
    "ChatCompletionChunk": _object(
        {
            "id": _TEXT,
            "object": _one_of("chat.completion.chunk"),
            "created": _COUNT,
            "model": _TEXT,
            "choices": list_of(
                _object(
                    {
                        "index": _COUNT,
                        "delta": ref("ChatDelta"),
                        "logprobs": _or_null(_OBJECT),
                        "finish_reason": _or_null(ref("FinishReason")),
                    }
                )
            ),
        },
        usage=_or_null(ref("TokenUsage")),
        windlass=ref(RUN_EVENT),
    ),
    "ChatDelta": _object(
        {},
        role=_one_of("assistant"),
        content=_or_null(_TEXT),
        refusal=_or_null(_TEXT),
        reasoning_content=_TEXT,
        images=list_of(_OBJECT),
        tool_calls=list_of(
            _object(
                {"index": _COUNT},
                id=_TEXT,
                type=_one_of("function"),
                function=_object({}, name=_TEXT, arguments=_TEXT),
            )
        ),
    ),
    "FinishReason": _one_of(*dict.fromkeys(FINISH_REASONS.values())),
    "TokenUsage": _object(
        {"prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT},
        "Of all rounds together.",
        prompt_tokens_details=_object({"cached_tokens": _COUNT}),
        completion_tokens_details=_object({"reasoning_tokens": _COUNT}),
    ),
}

_RUNS: JsonObject = {
    "Run": _object(
        {
            "id": _TEXT,
            "object": _one_of("run"),
            "created": _COUNT,
            "model": _TEXT,
            "status": _one_of("running", "ended", "failed"),
            "phase": _one_of(*get_args(Phase)),
            "mode": _one_of(*get_args(Mode)),
            "events": {**_COUNT, "description": "How many events it has had so far."},
        },
        stop_reason=_or_null(_one_of(*get_args(StopReason))),
        error=_object({"message": _TEXT, "type": _TEXT}, param=_or_null(_TEXT)),
        response=ref("ChatCompletion"),
    ),
    "RunList": _object({"object": _one_of("list"), "data": list_of(ref("Run"))}),
    "Health": _object({"status": _one_of("ok", "shutting down")}),
}


def _value_schemas() -> JsonObject:
    kinds: tuple[type[Event], ...] = get_args(RunEvent)
    _, made = msgspec.json.schema_components((*kinds, Decision), ref_template=_PLACE + "{name}")
    events = {kind.__name__: _as_sent(made[kind.__name__], kind) for kind in kinds}
    tags = {str(kind.__struct_config__.tag): f"{_PLACE}{kind.__name__}" for kind in kinds}
    any_event = {
        "oneOf": [{"$ref": place} for place in tags.values()],
        "discriminator": {"propertyName": "event", "mapping": tags},
    }
    return {**made, **events, RUN_EVENT: any_event}


def _as_sent(schema: Mapping[str, Any], kind: type[Event]) -> JsonObject:
    """With what is the same for every event of a kind, and spelled out for readers."""
    spelled = {"type": _one_of(kind.type), "done": _one_of(kind.done)}
    return {
        **schema,
        "properties": {**schema["properties"], **spelled},
        "required": [*schema["required"], *spelled, "seq", "time"],
    }
