"""Encodes and decodes messages and content blocks of Anthropic's Messages. Pure.

Fields without a counterpart are kept in `extra["anthropic"]`. A block's signature and citations
arrive after its text, so they are stored in an empty part that closes the text before it: the
encoder joins both to one block again.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

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
    guessed_type,
    new_call_id,
    text_once,
)
from windlass.errors import ConfigError
from windlass.jsontext import compact_json, from_base64, to_base64
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

PROVIDER = "anthropic"
OWN_CALL_PREFIX = "mcptoolu_windlass_"
"""The start of the ids of the gateway's own calls in `mcp_tool_use` blocks."""
OWN_SIGNATURE = "windlass:"
"""The start of the signature of a thinking block of a model other than Claude. The model's own
signature follows."""
_INVALID_ID_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")
_WITHOUT_CONTENT = frozenset(
    {"redacted_thinking", "tool_addition", "tool_removal", "mcp_tool_listing", "tool_reference"}
)
"""The blocks that other models cannot use."""


def wire_call_id(call_id: str) -> str:
    """The id in the characters that Anthropic accepts."""
    return _INVALID_ID_CHARACTER.sub("_", call_id)


# Encoding.


def encode_blocks(message: Message) -> list[JsonObject]:
    """The content blocks of a message, results first and without empty texts.

    Thoughts of the assistant are omitted unless Claude signed them; its parts of another provider
    become text. Raises `ConfigError` for a part that this wire does not support.
    """
    results: list[JsonObject] = []
    blocks: list[JsonObject] = []
    thought: list[str] = []
    before: AnyPart | None = None
    for index, part in enumerate(message.parts):
        extra: JsonObject = part.extra.get(PROVIDER, {})
        match part:
            case Text(text=""):
                if extra and isinstance(before, Text) and blocks:
                    blocks[-1] = merged(blocks[-1], extra)
            case Text() if not part.text.strip():
                continue  # Anthropic refuses blank texts
            case Thought() if message.role == "assistant":
                thought.append(part.text)
                if "signature" in extra:
                    blocks += _thinking_blocks(thought, extra)
            case FunctionResponse():
                results.append(_encode_part(part, message, index))
            case _:
                thought.clear()
                blocks.append(_encode_part(part, message, index))
        before = part
    return [*results, *blocks]


def _thinking_blocks(pieces: list[str], extra: JsonObject) -> list[JsonObject]:
    """The thought so far as a block, if Claude signed it."""
    thinking = "".join(pieces)
    pieces.clear()
    if not extra["signature"]:
        return []
    return [merged({"type": "thinking", "thinking": thinking}, extra)]


def _encode_part(part: AnyPart, message: Message, index: int) -> JsonObject:
    extra: JsonObject = part.extra.get(PROVIDER, {})
    match part:
        case Text():
            return _encode_text(part.text, extra)
        case FunctionCall() if message.role == "assistant":
            return _encode_call(part, extra)
        case FunctionResponse() if message.role in ("user", "tool"):
            if not part.id:
                raise ConfigError(
                    f"parts[{index}]: the response of {part.name!r} answers no earlier call; on the"
                    " Anthropic wire a response needs the id of its call"
                )
            return merged(_encode_response(part), extra)
        case InlineData() | FileData() if message.role in ("user", "tool"):
            block = encode_media(part)
            if block is None and message.extra.get("windlass", {}).get("results"):
                return _named(part)  # media of a tool's result, which is text here
            if block is None:
                raise ConfigError(
                    f"parts[{index}]: the Anthropic wire supports images, PDF and text, not"
                    f" {part.mime_type}"
                )
            return block
        case Opaque() if part.provider == PROVIDER:
            return part.data
        case Opaque() if message.role == "assistant":
            return {"type": "text", "text": in_words(part).text}
        case _:
            raise misplaced(message, index, "Anthropic")


def _encode_text(text: str, extra: JsonObject) -> JsonObject:
    if extra.get("type") != "document":
        return merged({"type": "text", "text": text}, extra)
    source: JsonObject = extra.get("source", {})
    return {**extra, "source": {**source, "data": text}}


def _encode_call(call: FunctionCall, extra: JsonObject) -> JsonObject:
    arguments = call.arguments
    # Malformed arguments of another model must be an object here.
    given = {"arguments": arguments} if isinstance(arguments, str) else arguments
    fields = {"type": "tool_use", "id": wire_call_id(call.id), "name": call.name, "input": given}
    return merged(fields, extra)


def _encode_response(response: FunctionResponse) -> JsonObject:
    error = response.error
    text = text_once(response) if error is None else error
    content: str | list[JsonObject] = text
    if response.parts:
        content = [{"type": "text", "text": text}] if text.strip() else []
        content += [encode_media(part) or _named(part) for part in response.parts]
    fields: JsonObject = {
        "type": "tool_result",
        "tool_use_id": wire_call_id(response.id),
        "content": content,
    }
    return fields if error is None else {**fields, "is_error": True}


def _named(part: InlineData | FileData) -> JsonObject:
    """A text in place of media that Claude cannot read."""
    return {"type": "text", "text": f"[{part.mime_type or 'file'}: not supported by this model]"}


def encode_media(part: InlineData | FileData) -> JsonObject | None:
    """The media as an image or a document; None if this wire does not support it."""
    extra: JsonObject = part.extra.get(PROVIDER, {})
    mime = part.mime_type or ""
    if isinstance(part, FileData):
        mime = mime or guessed_type(part.uri.partition("?")[0]) or "image/*"
        source: JsonObject = {"type": "url", "url": part.uri}
    elif mime.startswith("text/"):
        data = part.data.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": data}
    else:
        source = {"type": "base64", "media_type": mime, "data": to_base64(part.data)}
    kind = extra.get("type") or ("image" if mime.startswith("image/") else "document")
    if kind == "document" and not mime.startswith(("text/", "application/pdf")):
        return None
    return merged({"type": kind, "source": source}, extra)


# Decoding.


def decode_messages(
    messages: Iterable[object], system: object = None, *, whole: bool = True
) -> tuple[Message, ...]:
    """A conversation. Results become a message of their own, with the names of their calls.

    Calls of our own server tools and their results, which a client sees as `mcp_tool_use` and
    `mcp_tool_result` in one message, become turns again. If the conversation is not `whole`, a
    result may answer a call that is missing here; its name is then empty. Blocks of unknown kinds
    are kept unchanged. Raises `ConfigError`, which names the field.
    """
    reader = _Conversation(whole)
    if system is not None:
        reader.add("system", _decode_content(system, "system"))
    for index, value in enumerate(messages):
        place = f"messages[{index}]"
        fields = _object(value, place)
        role = _ROLES.get(_text(fields.get("role"), f"{place}.role"))
        if role is None:
            raise ConfigError(f"{place}.role: must be one of {', '.join(_ROLES)}")
        extra = rest(fields, "role", "content")
        content = fields.get("content")
        if content is None and not (role == "system" and extra):
            raise ConfigError(f"{place}.content: missing")
        parts = [] if content is None else _decode_content(content, f"{place}.content")
        reader.add(role, parts, {PROVIDER: extra} if extra else {})
    return reader.messages()


_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


class _Conversation:
    """Collects decoded messages; gives results their names and their order."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}

    def add(
        self, role: Role, parts: Sequence["AnyPart | _Result"], extra: JsonObject | None = None
    ) -> None:
        spoken: list[AnyPart] = []
        for part in parts:
            if not isinstance(part, _Result):
                spoken.append(part)
                continue
            if spoken and role == "assistant":  # one of our own server tools: its turn ends here
                self._append(role, spoken)
                spoken = []
            self._answer(part)
        if spoken or not parts:
            self._append(role, spoken, extra)

    def messages(self) -> tuple[Message, ...]:
        ordered = list(self._messages)
        for place, (turn, results) in enumerate(pairwise(self._messages), start=1):
            if results.role == "tool" and len(results.parts) > 1:
                ordered[place] = _in_call_order(results, turn)
        return tuple(ordered)

    def _append(
        self, role: Role, parts: Sequence[AnyPart], extra: JsonObject | None = None
    ) -> None:
        message = Message(role, tuple(parts), extra or {})
        self._names |= {call.id: call.name for call in message.calls}
        self._messages.append(message)

    def _answer(self, result: "_Result") -> None:
        response = result.response
        name = self._names.get(response.id)
        if name is None and self._whole:
            raise ConfigError(
                f"{result.place}.tool_use_id: no earlier call has the id {response.id!r}"
            )
        named = replace(response, name=name or "")
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "tool":
            self._messages[-1] = Message("tool", (*last.parts, named))
        else:
            self._messages.append(Message("tool", (named,)))


def _in_call_order(results: Message, turn: Message) -> Message:
    places = {call.id: number for number, call in enumerate(turn.calls)}
    ordered = sorted(results.responses, key=lambda each: places.get(each.id, len(places)))
    return Message("tool", tuple(ordered))


class _Result:
    """A result whose name is in its call."""

    __slots__ = ("place", "response")

    def __init__(self, response: FunctionResponse, place: str) -> None:
        self.response, self.place = response, place


def _decode_content(content: object, place: str) -> list[AnyPart | _Result]:
    if isinstance(content, str):
        return [Text(content)]
    items = as_list(content)
    if items is None:
        raise ConfigError(f"{place}: must be a string or a list of blocks")
    return [_decode_block(item, f"{place}[{index}]") for index, item in enumerate(items)]


def _decode_block(value: object, place: str) -> AnyPart | _Result:
    block = _object(value, place)
    kind = _text(block.get("type"), f"{place}.type")
    decode = _DECODERS.get(kind)
    return Opaque(PROVIDER, block) if decode is None else decode(block, place)


def _decode_text(block: JsonObject, place: str) -> AnyPart:
    text = as_text(block.get("text"))
    if text is None:
        raise ConfigError(f"{place}.text: must be a string")
    return Text(text, extra=_extra(rest(block, "type", "text")))


def _decode_thinking(block: JsonObject, place: str) -> AnyPart:
    text = as_text(block.get("thinking"))
    if text is None:
        raise ConfigError(f"{place}.thinking: must be a string")
    signature = as_text(block.get("signature")) or ""
    fields = rest(block, "type", "thinking")
    if signature.startswith(OWN_SIGNATURE):
        inner = signature.removeprefix(OWN_SIGNATURE)
        return Thought(text, inner or None, extra={PROVIDER: {"signature": ""}})
    return Thought(text, extra={PROVIDER: {**fields, "signature": signature}})


def decode_media(block: JsonObject, place: str) -> AnyPart:
    """An image or a document. A source that only Anthropic can read is kept unchanged."""
    kind = block["type"]
    fields = rest(block, "type", "source")
    match block.get("source"):
        case {"type": "base64", "data": str(data), **inner}:
            mime = as_text(inner.get("media_type")) or "application/octet-stream"
            usual = "image" if mime.startswith("image/") else "document"
            marked = fields if kind == usual else {"type": kind, **fields}
            content = _bytes(data, f"{place}.source.data")
            return InlineData(content, mime, extra=_extra(marked))
        case {"type": "url", "url": str(url)}:
            mime = "application/pdf" if kind == "document" else None
            marked = fields if kind == "document" else {"type": kind, **fields}
            return FileData(url, mime, extra=_extra(marked))
        case {"type": "text", "data": str(text), **inner} if text.strip():
            source = {"type": "text", **rest(inner)}
            return Text(text, extra={PROVIDER: {"type": kind, "source": source, **fields}})
        case {"type": str()}:
            return Opaque(PROVIDER, block)
        case _:
            raise ConfigError(f"{place}.source: must be an object with a type")


def _decode_call(block: JsonObject, place: str) -> AnyPart:
    return FunctionCall(
        _text(block.get("name"), f"{place}.name"),
        compact_json(as_object(block.get("input")) or {}),
        as_text(block.get("id")) or new_call_id(),
        extra=_extra(rest(block, "type", "id", "name", "input")),
    )


def _decode_server_call(block: JsonObject, place: str) -> AnyPart:
    if not _is_own(block.get("id")):
        return Opaque(PROVIDER, block)
    return _decode_call({key: block[key] for key in block if key != "server_name"}, place)


def _is_own(call_id: object) -> bool:
    return isinstance(call_id, str) and call_id.startswith(OWN_CALL_PREFIX)


def _decode_result(block: JsonObject, place: str) -> _Result:
    call_id = _text(block.get("tool_use_id"), f"{place}.tool_use_id")
    fields = rest(block, "type", "tool_use_id", "content", "is_error")
    content = block.get("content")
    text, media, is_plain = _result_content(content, f"{place}.content")
    if not is_plain:
        fields["content"] = content
    key = "error" if block.get("is_error") is True else "output"
    return _Result(FunctionResponse("", {key: text}, call_id, media, extra=_extra(fields)), place)


def _decode_server_result(block: JsonObject, place: str) -> AnyPart | _Result:
    if not _is_own(block.get("tool_use_id")):
        return Opaque(PROVIDER, block)
    return _decode_result({**block, "type": "tool_result"}, place)


def _result_content(
    content: object, place: str
) -> tuple[str, tuple[InlineData | FileData, ...], bool]:
    """The text and the media of a result, and whether the encoder writes the same content."""
    if content is None:
        return "", (), True
    texts: list[str] = []
    media: list[InlineData | FileData] = []
    is_plain = isinstance(content, str)
    for part in _decode_content(content, place):
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, InlineData | FileData):
            media.append(part)
    kinds = [as_text((as_object(item) or {}).get("type")) for item in as_list(content) or ()]
    if media and not is_plain:
        is_plain = kinds[0] == "text" and len(texts) == 1 and len(kinds) == len(media) + 1
    return "".join(texts), tuple(media), is_plain


_DECODERS: dict[str, Callable[[JsonObject, str], AnyPart | _Result]] = {
    "text": _decode_text,
    "image": decode_media,
    "document": decode_media,
    "thinking": _decode_thinking,
    "tool_use": _decode_call,
    "tool_result": _decode_result,
    "mcp_tool_use": _decode_server_call,
    "mcp_tool_result": _decode_server_result,
}


def for_other_wires(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation for a model of another wire: it has no blocks that only Claude can read.

    Blocks and messages without content for another model are dropped, others become text. A file
    that Anthropic stores stays as it is, because another model cannot read it.
    """
    portable = (_portable(message) for message in messages)
    return tuple(message for message in portable if message.parts)


def _portable(message: Message) -> Message:
    if not any(_is_foreign(part) for part in message.parts):
        return message
    parts: list[AnyPart] = []
    for part in message.parts:
        if not isinstance(part, Opaque) or not _is_foreign(part):
            parts.append(part)
        elif part.data.get("type") not in _WITHOUT_CONTENT:
            parts.append(in_words(part))
    return Message(message.role, tuple(parts), message.extra)


def _is_foreign(part: AnyPart) -> bool:
    return (
        isinstance(part, Opaque)
        and part.provider == PROVIDER
        and part.data.get("type") not in ("image", "document", "container_upload")
    )


def _extra(fields: JsonObject) -> JsonObject:
    return {PROVIDER: fields} if fields else {}


def _bytes(data: str, place: str) -> bytes:
    try:
        return from_base64(data)
    except ValueError:
        raise ConfigError(f"{place}: not base64") from None


def _object(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise ConfigError(f"{place}: must be an object")
    return fields


def _text(value: object, place: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise ConfigError(f"{place}: must be a non-empty string")
