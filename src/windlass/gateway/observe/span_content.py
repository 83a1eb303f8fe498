"""Messages as span attributes, in the JSON of OpenTelemetry's conventions for generative AI."""

from collections.abc import Iterable
from typing import Any, assert_never

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
    Thought,
)
from windlass.events import FinishReason
from windlass.jsontext import compact_json


def input_messages(messages: Iterable[Message]) -> str:
    """The value of `gen_ai.input.messages`."""
    return compact_json([_message(message) for message in messages])


def output_messages(message: Message, finish: FinishReason) -> str:
    """The value of `gen_ai.output.messages`: always one message."""
    return compact_json([{**_message(message), "finish_reason": finish}])


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_part(part) for part in message.parts]}


def _part(part: AnyPart) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "content": part.text}
        case Thought():
            return {"type": "reasoning", "content": part.text}
        case FunctionCall():
            arguments = part.arguments
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
        case FunctionResponse():
            return {"type": "tool_call_response", "id": part.id, "response": part.response}
        case FileData():
            return {"type": "uri", "mime_type": part.mime_type, "uri": part.uri}
        case InlineData():
            # Only the size: images and audio would make traces too large.
            return {"type": "blob", "mime_type": part.mime_type, "size": len(part.data)}
        case Opaque():
            return {"type": "other", "provider": part.provider}
        case _:
            assert_never(part)
