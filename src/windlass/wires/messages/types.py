"""The JSON of Anthropic's Messages API: requests, messages, events and errors.

A class `NameJson` is called `Name` in the OpenAPI document. Requests may have further fields.
"""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypeAliasType

from windlass.wires.fields import AnyWholeNumber, Count, Field, Json, NonEmptyText

_KNOWN_BLOCKS = ("text", "image", "document", "thinking", "tool_use", "tool_result")


class TextBlockJson(Json):
    type: Literal["text"]
    text: str


class MediaBlockJson(Json):
    """An image or a document; its source is `base64`, `url`, `text` or `file`."""

    type: Literal["image", "document"]
    source: dict[str, Any]


class ThinkingBlockJson(Json):
    type: Literal["thinking"]
    thinking: str
    signature: NotRequired[str]


class ToolUseBlockJson(Json):
    type: Literal["tool_use"]
    id: NonEmptyText
    name: NonEmptyText
    input: dict[str, Any]


class ToolResultBlockJson(Json):
    type: Literal["tool_result"]
    tool_use_id: NonEmptyText
    content: NotRequired[str | list[dict[str, Any]]]
    is_error: NotRequired[bool]


class OtherBlockJson(Json):
    """A block of any other kind. A model of Anthropic gets it unchanged."""

    type: Annotated[NonEmptyText, Field(json_schema_extra={"not": {"enum": [*_KNOWN_BLOCKS]}})]


ContentBlockJson = TypeAliasType(
    "ContentBlockJson",
    TextBlockJson
    | MediaBlockJson
    | ThinkingBlockJson
    | ToolUseBlockJson
    | ToolResultBlockJson
    | OtherBlockJson,
)


class AnthropicInputMessageJson(Json):
    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlockJson]


class MessageToolJson(Json):
    """A tool of the client."""

    name: NonEmptyText
    description: NotRequired[str]
    input_schema: dict[str, Any]
    type: NotRequired[Literal["custom"] | None]


class AnthropicHostedToolJson(Json):
    """A tool that Anthropic runs or defines, such as `web_search_20250305`. It is skipped."""

    type: Annotated[NonEmptyText, Field(json_schema_extra={"not": {"const": "custom"}})]


MessageToolChoiceJson = TypeAliasType("MessageToolChoiceJson", dict[str, Any])


class CountRequestJson(Json):
    model: NonEmptyText
    messages: Annotated[list[AnthropicInputMessageJson], Field(min_length=1)]
    system: NotRequired[str | list[TextBlockJson]]
    tools: NotRequired[list[MessageToolJson | AnthropicHostedToolJson]]


class MessageRequestJson(CountRequestJson):
    max_tokens: Annotated[AnyWholeNumber, Field(ge=0)]
    stream: NotRequired[bool]
    tool_choice: NotRequired[MessageToolChoiceJson]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    top_k: NotRequired[AnyWholeNumber]
    stop_sequences: NotRequired[list[str]]
    thinking: NotRequired[dict[str, Any]]
    output_config: NotRequired[dict[str, Any]]


class MessageUsageJson(Json):
    input_tokens: Count
    output_tokens: Count


class AnthropicMessageJson(Json):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsageJson


class MessageEventJson(Json):
    """An event of a stream, such as `message_start` or `content_block_delta`."""

    type: str


class TokenCountJson(Json):
    input_tokens: Count


class MessagesErrorDetailJson(Json):
    type: str
    message: str


class MessagesErrorJson(Json):
    type: Literal["error"]
    error: MessagesErrorDetailJson
