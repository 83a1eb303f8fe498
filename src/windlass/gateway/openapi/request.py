"""The schemas of a chat completion request. Pure."""

from windlass.gateway.openapi.words import (
    FLAG,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    an_object,
    any_of,
    list_of,
    one_of,
    or_null,
    ref,
)
from windlass.wires.fields import JsonObject

_NAME: JsonObject = {**TEXT, "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": 64}
_SOME_TEXT: JsonObject = {**TEXT, "minLength": 1}
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
        "model": {**_SOME_TEXT, "description": "The name of a model; `GET /v1/models` lists them."},
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
            an_object({"name": _SOME_TEXT}, "The older form of a call.", arguments=TEXT)
        ),
        reasoning_content=or_null(TEXT),
    ),
    an_object(
        {"role": one_of("tool"), "tool_call_id": _SOME_TEXT, "content": or_null(_CONTENT)},
        "The result of a call in an earlier message.",
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
        "A type of part that is specific to the model's provider.",
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
