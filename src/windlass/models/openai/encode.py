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
    Role,
    Text,
    Thought,
)
from windlass.jsontext.large import encode_any_json
from windlass.models.fields import JsonObject, in_words, merged, misplaced
from windlass.models.openai.media import PROVIDER, encode_media

__all__ = ["encode_call", "encode_message", "encode_message_json"]

_ROLES: dict[type, tuple[Role, ...]] = {
    FunctionCall: ("assistant",),
    FunctionResponse: ("tool", "user"),
    Thought: ("assistant",),
}
"""Where a part of this type has a place; one that is not named here has a place everywhere."""


def encode_message(message: Message) -> list[JsonObject]:
    """The wire's messages: one, or for responses one for each.

    No part is lost. The assistant's thoughts are left out, except in the fields
    (`reasoning_content`) in which they came, and its parts of another provider become text. Media
    in a response, and other parts beside responses, follow in a user message.

    Raises `ConfigError` for a part that this wire has no place for.
    """
    message = _placed(message)
    if message.role == "tool" or message.responses:
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


def _placed(message: Message) -> Message:
    """The message with parts that have a place here. Raises `ConfigError` for another."""
    foreign = False
    for index, part in enumerate(message.parts):
        allowed = _ROLES.get(type(part))
        if allowed is not None and message.role not in allowed:
            raise misplaced(message, index, "OpenAI")
        if isinstance(part, Opaque) and part.provider != PROVIDER:
            if message.role != "assistant":
                raise misplaced(message, index, "OpenAI")
            foreign = True
    if not foreign:
        return message
    parts = tuple(
        in_words(part) if isinstance(part, Opaque) and part.provider != PROVIDER else part
        for part in message.parts
    )
    return Message(message.role, parts, message.extra)


def encode_message_json(message: Message) -> bytes:
    """The same as JSON, with commas between the messages."""
    return b",".join(map(encode_any_json, encode_message(message)))


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
    if not others:
        return encoded
    extra = message.extra if message.role == "user" else {}
    return [*encoded, *encode_message(Message("user", others, extra))]


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
