"""Whole messages in Gemini's form, `{"role", "parts"}`, to ours and back. Nothing is lost."""

from collections.abc import Iterable
from typing import cast

from windlass.content import AnyPart, FunctionResponse, Message, Part, Role, paired
from windlass.errors import ConfigError
from windlass.models.fields import JsonObject, as_list, as_object, as_text, merged, rest
from windlass.models.gemini.parts import PROVIDER, camel_keys, decode_part, encode_parts

__all__ = ["decode_message", "decode_messages", "encode_message"]

WIRE_ROLES: dict[Role, str] = {
    "system": "system",
    "user": "user",
    "assistant": "model",
    "tool": "user",
}
_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "model": "assistant",
    "function": "tool",
}


def encode_message(message: Message, *, ids: bool = True, signed: bool = False) -> JsonObject:
    """The message as a `Content`. In a request, one of the system stands apart from the others."""
    parts = encode_parts(message, ids=ids, signed=signed and message.role == "assistant")
    fields: JsonObject = {"role": WIRE_ROLES[message.role], "parts": parts}
    return merged(fields, message.extra.get(PROVIDER, {}))


def decode_message(fields: JsonObject) -> Message:
    """One message. Raises `ConfigError`, which names the field."""
    return decode_messages([fields])[0]


def decode_messages(contents: Iterable[JsonObject]) -> tuple[Message, ...]:
    """A conversation. A response without an id gets that of the call it answers.

    Raises `ConfigError`, which names the field.
    """
    decoded = [_decode(value, f"contents[{index}]") for index, value in enumerate(contents)]
    return paired(decoded)


def _decode(value: object, place: str) -> Message:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    fields = camel_keys(fields)
    role = _ROLES.get(as_text(fields.get("role")) or "user")
    if role is None:
        raise ConfigError(f"{place}.role: must be one of {', '.join(_ROLES)}")
    items = as_list(fields.get("parts"))
    if items is None:
        raise ConfigError(f"{place}.parts: must be a list")
    parts: list[AnyPart] = []
    for index, item in enumerate(items):
        if isinstance(item, Part):
            parts.append(cast("AnyPart", item))
            continue
        part = as_object({"text": item} if isinstance(item, str) else item)
        if part is None:
            raise ConfigError(f"{place}.parts[{index}]: must be an object")
        parts.append(decode_part(part, f"{place}.parts[{index}]"))
    extra = rest(fields, "role", "parts")
    if role == "tool":
        extra["role"] = fields["role"]
    if role == "user" and any(isinstance(part, FunctionResponse) for part in parts):
        role = "tool"
    return Message(role, tuple(parts), {PROVIDER: extra} if extra else {})
