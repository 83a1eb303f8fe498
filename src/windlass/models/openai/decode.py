"""Messages in the chat-completions form, as users and clients write them, to ours, whole."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from windlass.content import (
    AnyPart,
    FunctionCall,
    FunctionResponse,
    Message,
    Opaque,
    Role,
    Text,
    Thought,
    new_call_id,
)
from windlass.errors import ConfigError
from windlass.models.fields import JsonObject, as_list, as_object, as_text, rest
from windlass.models.openai.media import PROVIDER, decode_media

__all__ = [
    "arguments_text",
    "call_extra",
    "decode_call",
    "decode_message",
    "decode_messages",
    "google_signature",
]

THOUGHT_FIELDS = ("reasoning_content", "reasoning")

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def decode_message(fields: JsonObject) -> Message:
    """One message. A tool's answer must carry its `name`; `decode_messages` finds it by the call.

    Raises `ConfigError`, which names the field.
    """
    return decode_messages([fields])[0]


def decode_messages(messages: Iterable[JsonObject], *, whole: bool = True) -> tuple[Message, ...]:
    """A conversation. Neighbouring tool messages become one; the calls tell the tools' names.

    One that is not `whole` may answer calls that stand elsewhere: the name is then empty. Raises
    `ConfigError`, which names the field.
    """
    decoded: list[Message] = []
    responses: list[FunctionResponse] = []
    names: dict[str, str] = {}
    latest: dict[str, str] = {}
    """The last call of each tool."""
    for index, value in enumerate(messages):
        place = f"messages[{index}]"
        fields = _object(value, place)
        role = _ROLES.get(_text(fields.get("role"), f"{place}.role"))
        if role is None:
            raise ConfigError(f"{place}.role: must be one of {', '.join(_ROLES)}")
        if role != "tool":
            if responses:
                decoded.append(Message("tool", tuple(responses)))
                responses = []
            message = _decode_spoken(fields, role, place)
            names |= {call.id: call.name for call in message.calls}
            latest |= {call.name: call.id for call in message.calls}
            decoded.append(message)
            continue
        responses.append(_decode_response(fields, place, names, latest, whole))
    if responses:
        decoded.append(Message("tool", tuple(responses)))
    return tuple(decoded)


def decode_call(fields: JsonObject, place: str = "tool_calls[0]") -> FunctionCall | Opaque:
    """A whole call. One of another type than function is kept whole."""
    function = as_object(fields.get("function"))
    if function is None and fields.get("type", "function") != "function":
        return Opaque(PROVIDER, fields)
    function = _object(function, f"{place}.function")
    extra = call_extra(fields)
    return FunctionCall(
        _text(function.get("name"), f"{place}.function.name"),
        arguments_text(function.get("arguments")),
        as_text(fields.get("id")) or new_call_id(),
        google_signature(extra),
        extra={PROVIDER: extra} if extra else {},
    )


def call_extra(fields: JsonObject) -> JsonObject:
    """The call's fields beside those of FunctionCall, shaped as on the wire."""
    extra = rest(fields, "id", "type", "function", "index")
    if inner := rest(as_object(fields.get("function")) or {}, "name", "arguments"):
        extra["function"] = inner
    return extra


def google_signature(extra: JsonObject) -> str | None:
    """Gemini's thought signature, where Google's own OpenAI-compatible server puts it."""
    match extra.get("extra_content"):
        case {"google": {"thought_signature": str(signature)}}:
            return signature
        case _:
            return None


def arguments_text(value: object) -> str:
    """The arguments as JSON text; some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _decode_spoken(fields: JsonObject, role: Role, place: str) -> Message:
    if role != "assistant" and fields.get("content") is None:
        raise ConfigError(f"{place}.content: missing")
    extra = rest(fields, "role", "content", "tool_calls", "function_call")
    if fields["role"] != role:
        extra["role"] = fields["role"]
    parts: list[AnyPart] = []
    if role == "assistant":
        thoughts = (as_text(extra.get(name)) for name in THOUGHT_FIELDS)
        parts += [Thought(thought) for thought in thoughts if thought][:1]
    parts += _decode_content(fields.get("content"), f"{place}.content", role == "assistant")
    for index, call in enumerate(as_list(fields.get("tool_calls")) or ()):
        where = f"{place}.tool_calls[{index}]"
        parts.append(decode_call(_object(call, where), where))
    if (legacy := as_object(fields.get("function_call"))) is not None:
        name = _text(legacy.get("name"), f"{place}.function_call.name")
        # An older form of one call; the mark brings it back in that form.
        mark: JsonObject = {PROVIDER: {"function_call": {}}}
        text = arguments_text(legacy.get("arguments"))
        parts.append(FunctionCall(name, text, new_call_id(), extra=mark))
    return Message(role, tuple(parts), {PROVIDER: extra} if extra else {})


def _decode_content(content: Any, place: str, joined: bool) -> list[AnyPart]:
    """`joined`: whether several texts would come back as one string."""
    match content:
        case None:
            return []
        case str():
            return [Text(content)]
        case {"text": str(text)}:
            return [Text(text)]
        case list():
            items = cast("list[Any]", content)
            mark = joined or len(items) == 1
            return [_decode_part(item, f"{place}[{i}]", mark) for i, item in enumerate(items)]
        case _:
            raise ConfigError(f"{place}: must be a string or a list of parts")


def _decode_part(value: Any, place: str, mark: bool) -> AnyPart:
    part = _object(value, place)
    kind = _text(part.get("type"), f"{place}.type")
    if kind != "text":
        return decode_media(part, place)
    text = as_text(part.get("text"))
    if text is None:
        raise ConfigError(f"{place}.text: must be a text")
    # With the mark, a text that stood in a list goes back into a list.
    extra = rest(part, "text") if mark else rest(part, "type", "text")
    return Text(text, extra={PROVIDER: extra} if extra else {})


def _decode_response(
    fields: JsonObject,
    place: str,
    names: dict[str, str],
    latest: dict[str, str],
    whole: bool,
) -> FunctionResponse:
    name = as_text(fields.get("name"))
    if fields["role"] == "function":
        name = _text(name, f"{place}.name")
        call_id = latest.get(name, "")
        extra = rest(fields, "name", "content")
    else:
        call_id = _text(fields.get("tool_call_id"), f"{place}.tool_call_id")
        name = names.get(call_id) or name or ("" if not whole else None)
        if name is None:
            raise ConfigError(f"{place}.tool_call_id: no earlier call has the id {call_id!r}")
        extra = rest(fields, "role", "tool_call_id", "content")
    content = fields.get("content")
    parts = _decode_content(content, f"{place}.content", joined=False)
    if not isinstance(content, str | None):
        extra["content"] = content
    output = "".join(part.text for part in parts if isinstance(part, Text))
    return FunctionResponse(
        name, {"output": output}, call_id, extra={PROVIDER: extra} if extra else {}
    )


def _object(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    return fields


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise ConfigError(f"{place}: must be a text")
