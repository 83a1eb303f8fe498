"""Our messages on the chat-completions wire.

What our values have no field for lives in `extra["openai"]`, shaped as it stood on the wire, and is
laid over the encoded message again.
"""

from typing import TypeGuard

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Text,
)
from windlass.jsontext import encode_json
from windlass.models.fields import JsonObject, merged
from windlass.models.openai.media import PROVIDER, encode_media

__all__ = ["encode_call", "encode_message", "encode_message_json"]


def encode_message(message: Message) -> list[JsonObject]:
    """The wire's messages: one, or for a tool message one per response.

    Thoughts are not said again, except by the fields (`reasoning_content`) in which they came.
    Media in a tool's answer follow in a user message, the only place that this wire has for them.

    Raises `ConfigError` for a part that this wire has no place for.
    """
    if message.role == "tool":
        return _encode_tool(message)
    fields: JsonObject = {"role": message.role, "content": _encode_content(message)}
    for part in message.parts:
        if isinstance(part, FunctionCall):
            if "function_call" in part.extra.get(PROVIDER, ()):
                fields["function_call"] = {"name": part.name, "arguments": part.json}
            else:
                fields.setdefault("tool_calls", []).append(encode_call(part))
        elif _is_foreign_call(part):
            fields.setdefault("tool_calls", []).append(part.data)
    return [merged(fields, message.extra.get(PROVIDER, {}))]


def encode_message_json(message: Message) -> bytes:
    """The same as JSON, with commas between the messages."""
    return b",".join(encode_json(fields) for fields in encode_message(message))


def encode_call(call: FunctionCall) -> JsonObject:
    """The arguments go as the model wrote them; a signature only in the fields in which it came."""
    function = {"name": call.name, "arguments": call.json or "{}"}
    fields: JsonObject = {"id": call.id, "type": "function", "function": function}
    return merged(fields, call.extra.get(PROVIDER, {}))


def _encode_tool(message: Message) -> list[JsonObject]:
    encoded: list[JsonObject] = []
    media: list[JsonObject] = []
    for part in message.responses:
        extra: JsonObject = part.extra.get(PROVIDER, {})
        to = {"name": part.name} if extra.get("role") == "function" else {"tool_call_id": part.id}
        encoded.append(merged({"role": "tool", **to, "content": part.text}, extra))
        if part.parts:
            media.append({"type": "text", "text": f"Media from the tool {part.name} ({part.id}):"})
            media += [encode_media(item) for item in part.parts]
    if media:
        encoded.append({"role": "user", "content": media})
    others = tuple(part for part in message.parts if not isinstance(part, FunctionResponse))
    return [*encoded, *encode_message(Message("user", others))] if others else encoded


def _encode_content(message: Message) -> str | list[JsonObject] | None:
    """A string where a string says it all: many servers read nothing else from an assistant."""
    said = [part for part in message.parts if _is_said(part)]
    plain = [part.text for part in said if isinstance(part, Text) and PROVIDER not in part.extra]
    if len(plain) == len(said) and (message.role == "assistant" or len(said) <= 1):
        # Null is for a turn that says something else: calls, or fields of the provider's own.
        silent = not said and (message.calls or message.extra)
        return None if silent else "".join(plain)
    return [_encode_part(part) for part in said]


def _encode_part(part: AnyPart) -> JsonObject:
    match part:
        case InlineData() | FileData():
            return encode_media(part)
        case Opaque():
            return part.data
        case _:
            text = part.text if isinstance(part, Text) else ""
            return merged({"type": "text", "text": text}, part.extra.get(PROVIDER, {}))


def _is_said(part: AnyPart) -> bool:
    if isinstance(part, Opaque):
        return part.provider == PROVIDER and not _is_foreign_call(part)
    return isinstance(part, (Text, InlineData, FileData))


def _is_foreign_call(part: AnyPart) -> TypeGuard[Opaque]:
    """A call of another type than function: it has an id, and stands among the calls."""
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return False
    return "id" in part.data and part.data.get("type") in part.data
