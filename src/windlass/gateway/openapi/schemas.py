"""The schemas of the OpenAPI document. Pure.

The schemas of events, decisions, manual calls and exports are derived from their types.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from windlass.events import Event, Outcome, Phase, RunEvent, StopReason
from windlass.gateway.openapi.request import REQUEST_SCHEMAS
from windlass.gateway.openapi.words import (
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    SCHEMAS_PATH,
    TEXT,
    an_object,
    any_of,
    list_of,
    one_of,
    or_null,
    ref,
)
from windlass.gateway.runs.lookup import Decision, RunStatus
from windlass.gateway.tools.calls import HandCall
from windlass.runs.export import Export
from windlass.settings import Mode
from windlass.wires.chat.write_events import FINISH_REASONS
from windlass.wires.fields import JsonObject

ERROR = "Error"
RUN_EVENT = "RunEvent"


def event_stream(*kinds: JsonObject, last: str | None = None) -> JsonObject:
    """The schema of a server-sent event: its data is JSON of one of `kinds`, or the text `last`."""
    data = {**TEXT, "contentMediaType": "application/json", "contentSchema": any_of(*kinds)}
    if last is not None:
        data = any_of(one_of(last), data)
    return an_object({"data": data}, event=TEXT, id=TEXT)


def schemas() -> JsonObject:
    return {**REQUEST_SCHEMAS, **_ANSWER, **_RUNS, **_value_schemas()}


_LEGACY = "Replaces `tool_calls` if the request has `functions`."

_ANSWER: JsonObject = {
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

_RUNS: JsonObject = {
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
