"""Encodes and decodes messages, parts and their thought signatures on Gemini's wire. Pure.

Fields that Windlass does not know are kept in `extra["gemini"]`.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thought,
    is_own_call_id,
    new_call_id,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import compact_json, encode_json, from_base64, to_base64
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

PROVIDER = "gemini"
PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Google's placeholder for a call of another model, which has no signature."""


NESTED_TYPES = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")
"""The types of media that a `functionResponse` may have."""


def encode_parts(
    message: Message, *, ids: bool = True, signed: bool = False, nested: bool = True
) -> list[JsonObject]:
    """The message's parts in the wire's format, without empty texts.

    `ids`: whether the service supports call ids. `signed`: whether it requires a signature on the
    first call of every turn. `nested`: whether media may be in a result (Gemini 3 and later);
    other media follow the results, as parts of the same content.

    In an assistant message, parts of another provider become text; in other messages they raise
    `ConfigError`.
    """
    encoded: list[JsonObject] = []
    following: list[InlineData | FileData] = []
    for index, part in enumerate(message.parts):
        if isinstance(part, FunctionResponse) and part.parts:
            inside = tuple(each for each in part.parts if nested and each.mime_type in NESTED_TYPES)
            following += [each for each in part.parts if each not in inside]
            part = replace(part, parts=inside)
        if isinstance(part, Opaque) and part.provider != PROVIDER:
            if message.role != "assistant":
                raise misplaced(message, index, "Gemini")
            part = in_words(part)
        fields = encode_part(part, ids)
        if fields is None:
            continue
        if signed and isinstance(part, FunctionCall):
            fields.setdefault("thoughtSignature", PLACEHOLDER_SIGNATURE)
            signed = False
        encoded.append(fields)
    return [*encoded, *filter(None, (encode_part(each, ids) for each in following))]


def encode_part(part: AnyPart, ids: bool) -> JsonObject | None:
    """The part in the wire's format; None for an empty text."""
    extra: JsonObject = part.extra.get(PROVIDER, {})
    match part:
        case Text(text="", signature=None) | Thought(text="", signature=None) if not extra:
            return None  # the service refuses empty texts
        case Text():
            fields: JsonObject = {"text": part.text}
        case Thought():
            fields = {"text": part.text, "thought": True}
        case InlineData():
            data = to_base64(part.data)
            fields = {"inlineData": {"mimeType": part.mime_type, "data": data}}
        case FileData():
            mime = {"mimeType": part.mime_type} if part.mime_type else {}
            fields = {"fileData": {**mime, "fileUri": part.uri}}
        case FunctionCall():
            fields = {"functionCall": _encode_call(part, ids)}
        case FunctionResponse():
            fields = {"functionResponse": _encode_response(part, ids)}
        case Opaque(data={"type": "refusal", "refusal": str(text)}):
            return {"text": text}  # a refusal of another model
        case Opaque():
            return part.data
    if isinstance(part, (Text, Thought, FunctionCall)) and part.signature is not None:
        fields["thoughtSignature"] = part.signature
    return merged(fields, extra)


def _encode_call(call: FunctionCall, ids: bool) -> JsonObject:
    arguments = call.arguments
    # Malformed arguments of another model must be an object here.
    args = {"arguments": arguments} if isinstance(arguments, str) else arguments
    return {**_encode_id(call.id, ids), "name": call.name, "args": args}


def _encode_response(response: FunctionResponse, ids: bool) -> JsonObject:
    parts = [encode_part(part, ids) for part in response.parts]
    return {
        **_encode_id(response.id, ids),
        "name": response.name,
        "response": response.response,
        **({"parts": parts} if parts else {}),
    }


def _encode_id(call_id: str, ids: bool) -> JsonObject:
    """The id, if the service issued it. The service does not know ids that Windlass created."""
    return {"id": call_id} if ids and call_id and not is_own_call_id(call_id) else {}


def decode_part(fields: JsonObject, place: str = "part") -> AnyPart:
    """The part. An unknown kind becomes an `Opaque`.

    Raises `ConfigError`, which names the field, for an invalid value.
    """
    if len(fields) == 1 and type(text := fields.get("text")) is str:
        return Text(text)  # nearly all parts
    fields = camel_keys(fields)
    for kind, decode in _DECODERS.items():
        inner = fields.get(kind)
        if inner is not None:
            return decode(inner, fields, f"{place}.{kind}")
    return Opaque(PROVIDER, fields)


def _decode_text(inner: object, fields: JsonObject, place: str) -> AnyPart:
    text = as_text(inner)
    if text is None:
        raise ConfigError(f"{place}: must be a string")
    kind = Thought if fields.get("thought") is True else Text
    signature = as_text(fields.get("thoughtSignature"))
    extra = rest(fields, "text", "thought", "thoughtSignature")
    return kind(text, signature, extra={PROVIDER: extra} if extra else {})


def _decode_inline(inner: object, fields: JsonObject, place: str) -> AnyPart:
    blob = _inner(inner, place)
    data = _decode_bytes(blob.get("data"), f"{place}.data")
    mime = as_text(blob.get("mimeType")) or "application/octet-stream"
    return InlineData(data, mime, extra=_extra(fields, "inlineData", blob, "data", "mimeType"))


def _decode_file(inner: object, fields: JsonObject, place: str) -> AnyPart:
    file = _inner(inner, place)
    uri = _name(file.get("fileUri"), f"{place}.fileUri")
    extra = _extra(fields, "fileData", file, "fileUri", "mimeType")
    return FileData(uri, as_text(file.get("mimeType")), extra=extra)


def _decode_call(inner: object, fields: JsonObject, place: str) -> AnyPart:
    call = _inner(inner, place)
    return FunctionCall(
        _name(call.get("name"), f"{place}.name"),
        compact_json(as_object(call.get("args")) or {}),
        as_text(call.get("id")) or new_call_id(),
        as_text(fields.get("thoughtSignature")),
        extra=_extra(rest(fields, "thoughtSignature"), "functionCall", call, "id", "name", "args"),
    )


def _decode_response(inner: object, fields: JsonObject, place: str) -> AnyPart:
    response = _inner(inner, place)
    known = ["id", "name", "response", "parts"]
    parts: list[InlineData | FileData] = []
    for index, item in enumerate(as_list(response.get("parts")) or ()):
        part = decode_part(_inner(item, f"{place}.parts[{index}]"), f"{place}.parts[{index}]")
        if isinstance(part, (InlineData, FileData)):
            parts.append(part)
        elif "parts" in known:
            known.remove("parts")  # keep all parts unchanged in `extra`
    return FunctionResponse(
        _name(response.get("name"), f"{place}.name"),
        _result(response.get("response")),
        as_text(response.get("id")) or "",
        tuple(parts),
        extra=_extra(fields, "functionResponse", response, *known),
    )


def _result(value: object) -> JsonObject:
    """The result, which must be an object on this wire; other values are its output."""
    fields = as_object(value)
    if fields is None:
        return {} if value is None else {"output": value}
    return fields


_DECODERS: dict[str, Callable[[object, JsonObject, str], AnyPart]] = {
    "text": _decode_text,
    "functionCall": _decode_call,
    "functionResponse": _decode_response,
    "inlineData": _decode_inline,
    "fileData": _decode_file,
}


def as_items(value: object) -> list[Any] | None:
    """A list. Like Google's service, accepts a single object instead of a list with one item."""
    return [value] if isinstance(value, dict) else as_list(value)


def camel_keys(fields: JsonObject) -> JsonObject:
    """The fields with camel-case keys. The service also accepts `function_call`."""
    if "_" not in "".join(fields):
        return fields
    return {camel_key(key): value for key, value in fields.items()}


def camel_key(key: str) -> str:
    """The key in camel case."""
    head, *words = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in words)


def _extra(fields: JsonObject, kind: str, inner: JsonObject, *known: str) -> JsonObject:
    """The unknown fields beside the part's own field and inside it, as on the wire."""
    unknown = rest(fields, kind)
    if unknown_inside := rest(inner, *known):
        unknown[kind] = unknown_inside
    return {PROVIDER: unknown} if unknown else {}


def _inner(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    return camel_keys(fields)


def _name(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise ConfigError(f"{place}: must be a string")


def _decode_bytes(value: object, place: str) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        text = (as_text(value) or "").replace("-", "+").replace("_", "/")
        return from_base64(text + "=" * (-len(text) % 4))
    except ValueError:
        raise ConfigError(f"{place}: not base64") from None


WIREROLES: dict[Role, str] = {
    "system": "system",
    "user": "user",
    "assistant": "model",
    "tool": "user",
}
ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "model": "assistant",
    "function": "tool",
}


def encode_message(message: Message, *, ids: bool = True, signed: bool = False) -> JsonObject:
    """The message as a `Content`. In a request, system messages are in a separate field."""
    parts = encode_parts(message, ids=ids, signed=signed and message.role == "assistant")
    fields: JsonObject = {"role": WIREROLES[message.role], "parts": parts}
    return merged(fields, message.extra.get(PROVIDER, {}))


def decode_message(fields: JsonObject) -> Message:
    """One message. Raises `ConfigError`, which names the field."""
    return decode_messages([fields])[0]


def decode_messages(contents: Iterable[JsonObject]) -> tuple[Message, ...]:
    """A conversation. A response without an id gets the id of its call.

    Raises `ConfigError`, which names the field.
    """
    decoded = [_decode(value, f"contents[{index}]") for index, value in enumerate(contents)]
    return paired(decoded)


def _decode(value: object, place: str) -> Message:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    fields = camel_keys(fields)
    role = ROLES.get(as_text(fields.get("role")) or "user")
    if role is None:
        raise ConfigError(f"{place}.role: must be one of {', '.join(ROLES)}")
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


_START = b"windlass:"
_ENCODED_START = to_base64(_START)
_PLACEHOLDERS = frozenset({PLACEHOLDER_SIGNATURE, PLACEHOLDER_SIGNATURE.replace("_", "/")})
"""Google's placeholder, in both base64 alphabets: some clients convert it."""


class Token(Struct, frozen=True, omit_defaults=True):
    """What the thought signature of a part contains for a client of the gateway.

    A client returns the signature unchanged, even if it drops the ids of calls. So the token has
    the fields that the client does not see. It is base64, because clients decode and encode
    signatures.
    """

    id: str = ""
    """The id of the call."""
    signature: str | None = None
    """The model's own signature."""
    extra: dict[str, Any] = {}
    """Fields of other providers."""


_decode_token = msgspec.json.Decoder(Token).decode


def encode_token(token: Token) -> str:
    """The token as a signature."""
    return to_base64(_START + encode_json(token))


def decode_token(signature: str | None) -> Token:
    """The token in a signature. A signature of another service is the model's own."""
    if not signature or signature in _PLACEHOLDERS:
        return Token()
    if not signature.startswith(_ENCODED_START):
        return Token(signature=signature)
    text = signature.replace("-", "+").replace("_", "/")
    try:
        return _decode_token(from_base64(text + "=" * (-len(text) % 4))[len(_START) :])
    except (ValueError, msgspec.DecodeError):
        return Token()
