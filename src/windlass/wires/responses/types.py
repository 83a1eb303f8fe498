"""The JSON of the Responses API, as far as the OpenAPI document describes it.

A class `NameJson` is called `Name` in the document. Items and events may have further fields.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypeAliasType

from windlass.wires.fields import AnyWholeNumber, Count, Field, Json, NonEmptyText
from windlass.wires.responses.read_request import ServerTools
from windlass.wires.responses.response import Status

_Limit: TypeAlias = Annotated[AnyWholeNumber, Field(ge=1)]
_ToolName: TypeAlias = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_-]*$", max_length=64)]
_KNOWN_TOOLS = ["function", "custom", "namespace", "mcp"]
ServerToolsJson = TypeAliasType("ServerToolsJson", ServerTools)
ResponseStatusJson = TypeAliasType("ResponseStatusJson", Status)


class InputText(Json):
    type: Literal["input_text", "output_text"]
    text: str


class InputImage(Json):
    type: Literal["input_image"]
    image_url: str


class InputFile(Json):
    type: Literal["input_file"]
    file_data: str
    """A data URL, or base64."""
    filename: NotRequired[str | None]


class InputFileUrl(Json):
    type: Literal["input_file"]
    file_url: str


_Content: TypeAlias = str | list[InputText | InputImage | InputFile | InputFileUrl]


class InputMessage(Json):
    type: NotRequired[Literal["message"]]
    role: Literal["user", "assistant", "system", "developer"]
    content: _Content


class InputCall(Json):
    """A call of a client tool in an earlier turn."""

    type: Literal["function_call"]
    call_id: NonEmptyText
    name: NonEmptyText
    arguments: str
    namespace: NotRequired[str | None]


class InputCallOutput(Json):
    """The result of a call."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: NonEmptyText
    output: _Content


class ApprovalDecision(Json):
    """The decision on a call that waits for approval."""

    type: Literal["mcp_approval_response"]
    approval_request_id: NonEmptyText
    approve: bool
    reason: NotRequired[str | None]


class OtherInputItem(Json):
    """Reasoning, compaction, a reference to a stored item, or an item of a hosted tool."""

    type: NonEmptyText


InputItem = TypeAliasType(
    "InputItem", InputMessage | InputCall | InputCallOutput | ApprovalDecision | OtherInputItem
)


class ResponseFunctionTool(Json):
    """A client tool. Its calls are returned as `function_call` items."""

    type: Literal["function"]
    name: _ToolName
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class CustomTool(Json):
    """A client tool whose input is free text."""

    type: Literal["custom"]
    name: _ToolName
    description: NotRequired[str | None]
    format: NotRequired[dict[str, Any] | None]


class ToolNamespace(Json):
    """Client tools whose names have a common prefix."""

    type: Literal["namespace"]
    name: _ToolName
    description: NotRequired[str | None]
    tools: list[dict[str, Any]]


class McpServer(Json):
    """An MCP server. The gateway runs its tools if `[responses] mcp_hosts` allows its host."""

    type: Literal["mcp"]
    server_label: NonEmptyText
    server_url: NonEmptyText
    authorization: NotRequired[str | None]
    headers: NotRequired[dict[str, str] | None]
    allowed_tools: NotRequired[list[str] | dict[str, Any] | None]
    require_approval: NotRequired[Literal["always", "never"] | dict[str, Any] | None]


class HostedTool(Json):
    """A tool that the model's provider runs. The gateway skips it."""

    type: Annotated[NonEmptyText, Field(json_schema_extra={"not": {"enum": [*_KNOWN_TOOLS]}})]


ResponseTool = TypeAliasType(
    "ResponseTool", ResponseFunctionTool | CustomTool | ToolNamespace | McpServer | HostedTool
)


class ChosenTool(Json):
    type: Literal["function", "custom"]
    name: str


class AllowedResponseTools(Json):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ChosenTool], Field(min_length=1)]


ResponseToolChoice = TypeAliasType(
    "ResponseToolChoice",
    Literal["auto", "none", "required"] | ChosenTool | AllowedResponseTools,
)


class PlainTextFormat(Json):
    type: Literal["text", "json_object"]


class SchemaTextFormat(Json):
    type: Literal["json_schema"]
    schema: dict[str, Any]
    name: NotRequired[str]
    strict: NotRequired[bool | None]


class TextOptions(Json):
    format: NotRequired[PlainTextFormat | SchemaTextFormat | None]
    verbosity: NotRequired[str | None]


class ReasoningOptions(Json):
    effort: NotRequired[str | None]
    summary: NotRequired[str | None]


class ConversationReference(Json):
    id: NonEmptyText


_Metadata: TypeAlias = Annotated[dict[str, str], Field(max_length=16)]


class ResponseInput(Json):
    """The part of a request that makes up the conversation."""

    model: NonEmptyText
    """The name of a model; `GET /v1/models` lists them."""
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: NotRequired[str | None]
    """A system message for this response only."""
    previous_response_id: NotRequired[str | None]
    """Continues the conversation of a stored response. Excludes `conversation`."""
    conversation: NotRequired[NonEmptyText | ConversationReference | None]
    """Continues a stored conversation. The gateway needs a log of runs (`[runs]`)."""
    tools: NotRequired[list[ResponseTool] | None]
    tool_choice: NotRequired[ResponseToolChoice | None]
    parallel_tool_calls: NotRequired[bool | None]
    text: NotRequired[TextOptions | None]
    reasoning: NotRequired[ReasoningOptions | None]
    truncation: NotRequired[str | None]


class ResponseRequest(ResponseInput):
    """A request of the Responses API. Other fields are passed to models that accept them."""

    stream: NotRequired[bool | None]
    background: NotRequired[bool | None]
    """Whether the run continues without its client, and after a restart of the gateway."""
    store: NotRequired[bool | None]
    """False stores nothing: the response cannot be retrieved or continued later."""
    server_tools: NotRequired[ServerToolsJson | None]
    """How calls of server tools are shown; the default is a setting of the model."""
    max_output_tokens: NotRequired[_Limit | None]
    max_tool_calls: NotRequired[_Limit | None]
    metadata: NotRequired[_Metadata | None]
    include: NotRequired[list[str] | None]
    temperature: NotRequired[float | None]
    top_p: NotRequired[float | None]
    top_logprobs: NotRequired[Annotated[AnyWholeNumber, Field(ge=0)] | None]
    prompt_cache_key: NotRequired[str | None]
    safety_identifier: NotRequired[str | None]
    service_tier: NotRequired[str | None]


class ResponseItem(Json):
    """An item of the output or the input: a message, reasoning, a call or its result."""

    id: NotRequired[str]
    type: str
    status: NotRequired[str | None]


class ResponseFailure(Json):
    code: str
    message: str


class CachedInput(Json):
    cached_tokens: Count


class ReasoningOutput(Json):
    reasoning_tokens: Count


class ResponseUsage(Json):
    """The sum of all rounds."""

    input_tokens: Count
    input_tokens_details: CachedInput
    output_tokens: Count
    output_tokens_details: ReasoningOutput
    total_tokens: Count


class IncompleteDetails(Json):
    reason: str


class ResponseJson(Json):
    """A response. The fields of its request are repeated."""

    id: str
    object: Literal["response"]
    created_at: Count
    completed_at: Count | None
    status: ResponseStatusJson
    model: str
    output: list[ResponseItem]
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    usage: ResponseUsage | None
    instructions: str | None
    previous_response_id: str | None
    conversation: NotRequired[ConversationReference]
    tools: list[dict[str, Any]]
    tool_choice: str | dict[str, Any]
    store: bool
    background: bool
    metadata: dict[str, Any]


class ResponseEvent(Json):
    """An event of a response. `response.*` events have further fields by their type."""

    type: NonEmptyText
    sequence_number: Count
    response: NotRequired[ResponseJson]
    item: NotRequired[ResponseItem]
    output_index: NotRequired[Count]
    item_id: NotRequired[str]
    delta: NotRequired[str]


class ResponseDeleted(Json):
    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(Json):
    object: Literal["list"]
    data: list[ResponseItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class InputTokens(Json):
    object: Literal["response.input_tokens"]
    input_tokens: Count


class CompactedResponse(Json):
    id: str
    object: Literal["response.compaction"]
    created_at: Count
    output: list[ResponseItem]
    """One opaque item. Send it at the start of the next `input`."""
    usage: ResponseUsage


class NewConversation(Json):
    items: NotRequired[Annotated[list[InputItem], Field(max_length=20)] | None]
    metadata: NotRequired[_Metadata | None]


class ConversationUpdate(Json):
    metadata: _Metadata


class ConversationJson(Json):
    id: str
    object: Literal["conversation"]
    created_at: Count
    metadata: dict[str, Any]


class ConversationDeleted(Json):
    id: str
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class NewItems(Json):
    items: Annotated[list[InputItem], Field(min_length=1, max_length=20)]
