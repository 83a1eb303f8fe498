"""A chat completion's request, as the OpenAPI document describes it. Pure."""

from windlass.gateway.openapi.words import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    an_object,
    any_of,
    list_of,
    one_of,
    or_null,
    ref,
)
from windlass.wires.fields import JsonObject

__all__ = ["REQUEST_SCHEMAS"]

_NAME: JsonObject = {**TEXT, "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": 64}
_SOME_TEXT: JsonObject = {**TEXT, "minLength": 1}
_LIMIT: JsonObject = {**WHOLE, "minimum": 1}
_BASE64: JsonObject = {**TEXT, "contentEncoding": "base64"}
_CONTENT = any_of(TEXT, list_of(ref("ContentPart")))
_NAMED_FUNCTION = an_object({"function": an_object({"name": TEXT})}, type=one_of("function"))

_TOOL_EVENTS: JsonObject = {
    **FLAG,
    "description": "Shows what the gateway's own tools do, in the field `windlass` of chunks."
    " The header `Accept: text/event-stream; events=windlass` asks for it, too.",
}

_REQUEST = an_object(
    {
        "model": {**_SOME_TEXT, "description": "A name out of `GET /v1/models`."},
        "messages": list_of(ref("ChatMessage"), minItems=1),
    },
    "OpenAI's request. Fields that are not named here go to models that know them.",
    tools=or_null(
        list_of(ref("ChatTool")), "The client's own tools. Calls of them come back as `tool_calls`."
    ),
    tool_choice=or_null(
        ref("ToolChoice"),
        "A forced choice holds until its call is made: of the client's tools if it allows any,"
        " else of the gateway's.",
    ),
    functions=or_null(list_of(ref("ChatFunction")), "The older form of `tools`."),
    function_call=or_null(
        any_of(one_of("auto", "none"), an_object({"name": TEXT})),
        "The older form of `tool_choice`.",
    ),
    parallel_tool_calls=or_null(FLAG),
    stream=or_null(FLAG),
    stream_options=or_null(an_object({}, include_usage=FLAG, include_tool_events=_TOOL_EVENTS)),
    background=or_null(FLAG, "Lets the run go on when its client goes away."),
    chat_id=or_null(
        {**TEXT, "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "Goes on with a stored chat, or begins one; for a gateway that keeps its runs.",
    ),
    replaces=or_null(
        TEXT,
        "A run of the chat: this one takes its place and that of all after it, and the conversation"
        " goes on from before. With `chat_id` alone.",
    ),
    n=or_null(one_of(1)),
    temperature=or_null(NUMBER),
    top_p=or_null(NUMBER),
    top_k=or_null(WHOLE),
    max_tokens=or_null(_LIMIT),
    max_completion_tokens=or_null(_LIMIT),
    stop=or_null(any_of(TEXT, list_of(TEXT))),
    seed=or_null(WHOLE),
    logprobs=or_null(FLAG),
    top_logprobs=or_null({**WHOLE, "minimum": 0}),
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
            an_object({"name": _SOME_TEXT}, "The older form of a call.", arguments=TEXT)
        ),
        reasoning_content=or_null(TEXT),
    ),
    an_object(
        {"role": one_of("tool"), "tool_call_id": _SOME_TEXT, "content": or_null(_CONTENT)},
        "The result of a call that an earlier message has.",
    ),
    an_object(
        {"role": one_of("function"), "name": _SOME_TEXT, "content": or_null(_CONTENT)},
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
        {"type": {**_SOME_TEXT, "not": one_of(*_KINDS)}},
        "A kind that only the model's provider knows.",
    ),
)

REQUEST_SCHEMAS: JsonObject = {
    "ChatCompletionRequest": _REQUEST,
    "ChatMessage": _MESSAGE,
    "ContentPart": _CONTENT_PART,
    "ChatToolCall": an_object(
        {
            "id": _SOME_TEXT,
            "type": one_of("function"),
            "function": an_object({"name": _SOME_TEXT, "arguments": TEXT}),
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
