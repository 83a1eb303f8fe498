"""The JSON of OpenAI chat completions: requests, answers, chunks and errors.

A class `NameJson` is called `Name` in the OpenAPI document.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypeAliasType

from windlass.events import RunEvent
from windlass.wires.chat.write_events import ChatFinishReason
from windlass.wires.fields import AnyWholeNumber, Count, Field, Json, NonEmptyText

_KNOWN_PARTS = ["text", "image_url", "input_audio", "file"]
_Base64: TypeAlias = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]
_Limit: TypeAlias = Annotated[AnyWholeNumber, Field(ge=1)]

RunEventJson = TypeAliasType("RunEventJson", RunEvent)
FinishReasonJson = TypeAliasType("FinishReasonJson", ChatFinishReason)


class TextPart(Json):
    type: Literal["text"]
    text: str


class ImageUrl(Json):
    url: str


class ImagePart(Json):
    type: Literal["image_url"]
    image_url: ImageUrl


class InputAudio(Json):
    data: _Base64
    format: str


class AudioPart(Json):
    type: Literal["input_audio"]
    input_audio: InputAudio


class FilePart(Json):
    type: Literal["file"]
    file: dict[str, Any]


class OtherPart(Json):
    """A type of part that is specific to the model's provider."""

    type: Annotated[NonEmptyText, Field(json_schema_extra={"not": {"enum": [*_KNOWN_PARTS]}})]


ContentPart = TypeAliasType("ContentPart", TextPart | ImagePart | AudioPart | FilePart | OtherPart)
_Content: TypeAlias = str | list[ContentPart]


class CalledFunction(Json):
    name: NonEmptyText
    arguments: str


class ChatToolCall(Json):
    id: NonEmptyText
    type: Literal["function"]
    function: CalledFunction


class LegacyCall(Json):
    """The older form of a call."""

    name: NonEmptyText
    arguments: NotRequired[str]


class PromptMessage(Json):
    role: Literal["system", "developer", "user"]
    content: _Content


class EarlierAnswer(Json):
    role: Literal["assistant"]
    content: NotRequired[_Content | None]
    tool_calls: NotRequired[list[ChatToolCall] | None]
    function_call: NotRequired[LegacyCall | None]
    reasoning_content: NotRequired[str | None]


class ToolMessage(Json):
    """The result of a call in an earlier message."""

    role: Literal["tool"]
    tool_call_id: NonEmptyText
    content: _Content | None


class FunctionMessage(Json):
    """The older form of a result."""

    role: Literal["function"]
    name: NonEmptyText
    content: _Content | None


ChatMessage = TypeAliasType(
    "ChatMessage", PromptMessage | EarlierAnswer | ToolMessage | FunctionMessage
)


class ChatFunction(Json):
    name: Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]*$", max_length=64)]
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    """A JSON Schema of type `object`."""
    strict: NotRequired[bool | None]


class ChatTool(Json):
    type: Literal["function"]
    function: ChatFunction


class FunctionName(Json):
    name: str


class NamedFunction(Json):
    type: NotRequired[Literal["function"]]
    function: FunctionName


class AllowedToolNames(Json):
    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedFunction], Field(min_length=1)]


class AllowedTools(Json):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedToolNames


ToolChoiceJson = TypeAliasType(
    "ToolChoiceJson", Literal["auto", "none", "required"] | NamedFunction | AllowedTools
)


class SimpleFormat(Json):
    type: Literal["text", "json_object"]


class JsonSchema(Json):
    schema: dict[str, Any]
    name: NotRequired[str]
    strict: NotRequired[bool | None]


class JsonSchemaFormat(Json):
    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = TypeAliasType("ResponseFormat", SimpleFormat | JsonSchemaFormat)


class StreamOptions(Json):
    include_usage: NotRequired[bool]
    include_tool_events: NotRequired[bool]
    """Adds events of the gateway's tools to chunks, in the field `windlass`. The header
    `Accept: text/event-stream; events=windlass` has the same effect."""


class ChatCompletionRequest(Json):
    """An OpenAI request. Other fields are passed to models that accept them."""

    model: NonEmptyText
    """The name of a model; `GET /v1/models` lists them."""
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    tools: NotRequired[list[ChatTool] | None]
    """Client tools. Their calls are returned as `tool_calls`."""
    tool_choice: NotRequired[ToolChoiceJson | None]
    """A forced choice applies until the call is made. It means a client tool if it allows one,
    else a server tool."""
    functions: NotRequired[list[ChatFunction] | None]
    """The older form of `tools`."""
    function_call: NotRequired[Literal["auto", "none"] | FunctionName | None]
    """The older form of `tool_choice`."""
    parallel_tool_calls: NotRequired[bool | None]
    stream: NotRequired[bool | None]
    stream_options: NotRequired[StreamOptions | None]
    background: NotRequired[bool | None]
    """Whether the run continues after its client disconnects."""
    chat_id: NotRequired[Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,64}$")] | None]
    """Continues a stored chat, or starts it. The gateway needs a log of runs (`[runs]`)."""
    replaces: NotRequired[str | None]
    """The id of a run of the chat. The new run replaces it and all later runs of the chat. Only
    with `chat_id`."""
    max_tokens_total: NotRequired[_Limit | None]
    """The budget of tokens of the whole run. It can only lower the model's own."""
    max_cost: NotRequired[Annotated[float, Field(ge=1e-40, le=1e40)] | None]
    """The budget of the whole run's cost. The model needs prices."""
    timeout: NotRequired[Annotated[float, Field(ge=1e-40, le=31_536_000)] | None]
    """The time limit of the whole run, in seconds."""
    n: NotRequired[Literal[1] | None]
    temperature: NotRequired[float | None]
    top_p: NotRequired[float | None]
    top_k: NotRequired[AnyWholeNumber | None]
    max_tokens: NotRequired[_Limit | None]
    max_completion_tokens: NotRequired[_Limit | None]
    stop: NotRequired[str | list[str] | None]
    seed: NotRequired[AnyWholeNumber | None]
    logprobs: NotRequired[bool | None]
    top_logprobs: NotRequired[Annotated[AnyWholeNumber, Field(ge=0)] | None]
    service_tier: NotRequired[str | None]
    response_format: NotRequired[ResponseFormat | None]


class ErrorFields(Json):
    message: str
    type: str
    param: str | None
    """The invalid field of the request."""
    code: str | None


class ErrorJson(Json):
    """The body of every error, and the last chunk of a stream that fails."""

    error: ErrorFields


class CachedTokens(Json):
    cached_tokens: Count


class ReasoningTokens(Json):
    reasoning_tokens: Count


class TokenUsage(Json):
    """The sum of all rounds."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: NotRequired[CachedTokens]
    completion_tokens_details: NotRequired[ReasoningTokens]


class AssistantMessage(Json):
    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    tool_calls: NotRequired[Annotated[list[ChatToolCall], Field(min_length=1)]]
    function_call: NotRequired[CalledFunction]
    """Replaces `tool_calls` if the request has `functions`."""
    reasoning_content: NotRequired[str]
    images: NotRequired[list[dict[str, Any]]]


class ChatChoice(Json):
    index: Count
    message: AssistantMessage
    logprobs: dict[str, Any] | None
    finish_reason: FinishReasonJson


class ChatCompletion(Json):
    id: str
    object: Literal["chat.completion"]
    created: Count
    model: str
    choices: list[ChatChoice]
    usage: NotRequired[TokenUsage]
    service_tier: NotRequired[str]
    system_fingerprint: NotRequired[str]


class FunctionDelta(Json):
    name: NotRequired[str]
    arguments: NotRequired[str]


class CallDelta(Json):
    index: Count
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: NotRequired[FunctionDelta]


class ChatDelta(Json):
    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str | None]
    refusal: NotRequired[str | None]
    reasoning_content: NotRequired[str]
    images: NotRequired[list[dict[str, Any]]]
    tool_calls: NotRequired[list[CallDelta]]
    function_call: NotRequired[FunctionDelta]
    """Replaces `tool_calls` if the request has `functions`."""


class ChunkChoice(Json):
    index: Count
    delta: ChatDelta
    logprobs: dict[str, Any] | None
    finish_reason: FinishReasonJson | None


class ChatCompletionChunk(Json):
    id: str
    object: Literal["chat.completion.chunk"]
    created: Count
    model: str
    choices: list[ChunkChoice]
    usage: NotRequired[TokenUsage | None]
    service_tier: NotRequired[str]
    system_fingerprint: NotRequired[str]
    windlass: NotRequired[RunEventJson]
