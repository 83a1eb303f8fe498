"""Encodes and decodes messages, parts and calls of chat completions, without loss. Pure.

Fields without a counterpart are kept in `extra["openai"]`, in their shape on the wire, and are
merged into the encoded message again.
"""

from collections.abc import Iterable
from typing import Any, TypeGuard, cast
from urllib.parse import unquote_to_bytes

import msgspec

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
    media_label,
    new_call_id,
    text_once,
)
from windlass.errors import ConfigError
from windlass.jsontext import from_base64, to_base64
from windlass.wires.encoding import message_encoder
from windlass.wires.fields import (
    JsonObject,
    as_list,
    as_object,
    as_text,
    in_words,
    merged,
    misplaced,
    rest,
)

PROVIDER = "openai"
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


def encode_media(part: InlineData | FileData) -> JsonObject:
    """Raises `ConfigError` for media that this wire does not support."""
    extra: JsonObject = part.extra.get(PROVIDER, {})
    kind = next((kind for kind in ("image_url", "input_audio", "file") if kind in extra), None)
    mime = part.mime_type or "image/*"
    if kind is None:
        family = mime.partition("/")[0]
        kind = {"image": "image_url", "audio": "input_audio"}.get(family, "file")
    return merged({"type": kind, kind: _encoded(part, kind, mime)}, extra)


def _encoded(part: InlineData | FileData, kind: str, mime: str) -> JsonObject:
    if isinstance(part, FileData):
        if kind != "image_url":
            raise ConfigError(f"the OpenAI wire needs {mime} as bytes, not as a URL: {part.uri}")
        return {"url": part.uri}
    data = to_base64(part.data)
    if kind == "input_audio":
        return {"data": data, "format": _AUDIO_FORMATS.get(mime, mime.partition("/")[2])}
    return {"url" if kind == "image_url" else "file_data": f"data:{mime};base64,{data}"}


def decode_media(part: JsonObject, place: str) -> AnyPart:
    """The part of a content list; a part of an unknown kind is kept unchanged.

    Raises `ConfigError`, which names the field, for data that cannot be read.
    """
    match part:
        case {"type": "image_url", "image_url": {"url": str(url), **inner}}:
            extra = _extra(part, "image_url", inner)
            return _from_url(url, extra, f"{place}.image_url.url")
        case {
            "type": "input_audio",
            "input_audio": {"data": str(data), "format": str(form), **inner},
        }:
            extra = _extra(part, "input_audio", inner)
            audio = _bytes(data, f"{place}.input_audio.data")
            return InlineData(audio, f"audio/{form}", extra=extra)
        case {"type": "file", "file": {"file_data": str(url), **inner}} if url.startswith("data:"):
            # Keep the kind: a PDF and an image may both be a `file`.
            extra = merged({PROVIDER: {"file": {}}}, _extra(part, "file", inner))
            return _from_url(url, extra, f"{place}.file.file_data")
        case {"type": "image_url"} | {"type": "input_audio"}:
            kind = part["type"]
            raise ConfigError(f"{place}.{kind}: not a valid {kind}")
        case _:
            return Opaque(PROVIDER, part)


def _extra(part: JsonObject, kind: str, inner: dict[str, Any]) -> JsonObject:
    unknown = rest(part, "type", kind)
    if unknown_inside := rest(inner):
        unknown[kind] = unknown_inside
    return {PROVIDER: unknown} if unknown else {}


def _from_url(url: str, extra: JsonObject, place: str) -> InlineData | FileData:
    if not url.startswith("data:"):
        return FileData(url, extra=extra)
    comma = url.find(",")
    if comma < 0:
        raise ConfigError(f"{place}: the data URL has no comma")
    mime, *flags = url[5:comma].split(";")
    is_base64 = "base64" in flags
    content = _bytes(url, place, comma + 1) if is_base64 else unquote_to_bytes(url[comma + 1 :])
    kind = "image_url" if place.endswith("image_url.url") else "file"
    if kind == "image_url" and not mime.startswith("image/"):
        extra = merged({PROVIDER: {kind: {}}}, extra)
    return InlineData(content, mime or "application/octet-stream", extra=extra)


def _bytes(data: str, place: str, start: int = 0) -> bytes:
    try:
        return from_base64(data, start)
    except ValueError:
        raise ConfigError(f"{place}: not base64") from None


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
    """One message. A tool result must have a `name`; `decode_messages` finds it from the call.

    Raises `ConfigError`, which names the field.
    """
    return decode_messages([fields])[0]


def decode_messages(messages: Iterable[JsonObject], *, whole: bool = True) -> tuple[Message, ...]:
    """A conversation. Adjacent tool messages become one; tool names come from the calls.

    If it is not `whole`, a result may answer a call that is missing here; its name is then empty.
    Raises `ConfigError`, which names the field.
    """
    decoded: list[Message] = []
    responses: list[FunctionResponse] = []
    names: dict[str, str] = {}
    latest: dict[str, str] = {}
    """The id of the last call of each tool."""
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
    """A complete call. A call of another type than function is kept unchanged."""
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
    """The call's fields that FunctionCall does not have, in their shape on the wire."""
    function = as_object(fields.get("function")) or {}
    if fields.keys() <= _CALL_FIELDS and function.keys() <= _FUNCTION_FIELDS:  # nearly always
        return {}
    extra = rest(fields, *_CALL_FIELDS)
    if inner := rest(function, *_FUNCTION_FIELDS):
        extra["function"] = inner
    return extra


_CALL_FIELDS = frozenset({"id", "type", "function", "index"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


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
        # The older form of a call; with this mark it is encoded in that form again.
        mark: JsonObject = {PROVIDER: {"function_call": {}}}
        text = arguments_text(legacy.get("arguments"))
        parts.append(FunctionCall(name, text, new_call_id(), extra=mark))
    return Message(role, tuple(parts), {PROVIDER: extra} if extra else {})


def _decode_content(content: Any, place: str, joined: bool) -> list[AnyPart]:
    """`joined`: whether several texts are encoded as one string."""
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
        raise ConfigError(f"{place}.text: must be a string")
    # With the mark, a text from a list is encoded in a list again.
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
    media = tuple(part for part in parts if isinstance(part, InlineData | FileData))
    # Media follow the result in a user message: most services refuse them in a tool message.
    if not isinstance(content, str | None) and not media:
        extra["content"] = content
    output = "".join(part.text for part in parts if isinstance(part, Text))
    return FunctionResponse(
        name, {"output": output}, call_id, media, extra={PROVIDER: extra} if extra else {}
    )


def _object(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    return fields


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise ConfigError(f"{place}: must be a non-empty string")


_WIRE_ROLES: dict[type, tuple[Role, ...]] = {
    FunctionCall: ("assistant",),
    FunctionResponse: ("tool", "user"),
    Thought: ("assistant",),
}
"""The roles that may contain a part of this type; other types are allowed in all roles."""


def encode_message(message: Message) -> list[JsonObject]:
    """One message on the wire, or one for each response.

    Thoughts of the assistant are omitted, except in the fields (`reasoning_content`) in which they
    came. Its parts of another provider become text. Media in a response, and other parts beside
    responses, follow in a user message.

    Raises `ConfigError` for a part that this wire does not support.
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
    """The message with only supported parts. Raises `ConfigError` for an unsupported part."""
    foreign = False
    for index, part in enumerate(message.parts):
        allowed = _WIRE_ROLES.get(type(part))
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
    """Like `encode_message`, but as JSON, with commas between the messages."""
    return b",".join(map(message_encoder(message), encode_message(message)))


def encode_call(call: FunctionCall) -> JsonObject:
    """Encodes arguments as the model wrote them, and a signature only in its original fields."""
    function = {"name": call.name, "arguments": call.json or "{}"}
    fields: JsonObject = {"id": call.id, "type": "function", "function": function}
    return merged(fields, call.extra.get(PROVIDER, {}))


def _encode_tool(message: Message) -> list[JsonObject]:
    encoded: list[JsonObject] = []
    media: list[JsonObject] = []
    for part in message.responses:
        extra: JsonObject = part.extra.get(PROVIDER, {})
        to = {"name": part.name} if extra.get("role") == "function" else {"tool_call_id": part.id}
        encoded.append(merged({"role": "tool", **to, "content": text_once(part)}, extra))
        if part.parts:
            media.append({"type": "text", "text": f"Media from the tool {part.name} ({part.id}):"})
            media += [_encode_result_media(item) for item in part.parts]
    if media:
        encoded.append({"role": "user", "content": media})
    others = tuple(part for part in message.parts if not isinstance(part, FunctionResponse))
    if not others:
        return encoded
    extra = message.extra if message.role == "user" else {}
    return [*encoded, *encode_message(Message("user", others, extra))]


def _encode_result_media(part: InlineData | FileData) -> JsonObject:
    """The media, or a text in its place if this wire does not support it."""
    try:
        return encode_media(part)
    except ConfigError:
        return {"type": "text", "text": media_label(part)}


def _encode_content(message: Message) -> str | list[JsonObject] | None:
    """A string if possible: many servers accept nothing else from an assistant."""
    parts = [part for part in message.parts if _is_content(part)]
    plain = [part.text for part in parts if isinstance(part, Text) and PROVIDER not in part.extra]
    if len(plain) == len(parts) and (message.role == "assistant" or len(parts) <= 1):
        # Null for a turn that has only calls, or fields specific to the provider.
        no_content = not parts and (message.calls or message.extra)
        return None if no_content else "".join(plain)
    is_result = message.extra.get("windlass", {}).get("results") is True
    return [_encode_part(part, is_result) for part in parts]


def _encode_part(part: AnyPart, is_result: bool) -> JsonObject:
    """`is_result`: whether the message has the results of tools, as text, and their media."""
    match part:
        case InlineData() | FileData():
            return _encode_result_media(part) if is_result else encode_media(part)
        case Opaque():
            return part.data
        case _:
            text = part.text if isinstance(part, Text) else ""
            return merged({"type": "text", "text": text}, part.extra.get(PROVIDER, {}))


def _is_content(part: AnyPart) -> bool:
    if isinstance(part, Opaque):
        return part.provider == PROVIDER and not _is_foreign_call(part)
    return isinstance(part, (Text, InlineData, FileData))


def _is_foreign_call(part: AnyPart) -> TypeGuard[Opaque]:
    """Whether this is a call of another type than function, which belongs into `tool_calls`."""
    if not isinstance(part, Opaque) or part.provider != PROVIDER:
        return False
    return "id" in part.data and part.data.get("type") in part.data
