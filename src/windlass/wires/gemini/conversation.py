"""Reads the conversation of a client's request. Pure.

A client returns what it has received, so the same turn arrives in several forms: one content for
each chunk of a stream, results without the ids of their calls, or calls without ids.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.content import (
    AnyPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Text,
    Thought,
    paired,
)
from windlass.errors import ConfigError
from windlass.jsontext import compact_json
from windlass.request import PartKind, PartPlace
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text, rest
from windlass.wires.gemini.messages import PROVIDER, ROLES, as_items, camel_keys, decode_part
from windlass.wires.gemini.signatures import Token, decode_token
from windlass.wires.result_order import in_call_order

_ABOUT_A_PART = frozenset({"thought", "thoughtSignature"})
"""The fields of a part that are not its content."""


class Conversation(NamedTuple):
    messages: tuple[Message, ...]
    parts: tuple[PartPlace, ...]
    """The media in the client's contents."""


def read_contents(contents: Sequence[Any]) -> Conversation:
    """The messages of `contents`. Raises `InvalidRequest`, which names the field."""
    reader = _ContentReader()
    decoded: list[Message] = []
    for place, value in enumerate(contents):
        try:
            decoded.append(reader.message(value, place))
        except ConfigError as error:
            # The error begins with the path below the content.
            at = f"contents[{place}]{str(error).partition(': ')[0]}"
            raise InvalidRequest(f"contents[{place}]{error}", at) from None
    messages = paired(decoded)
    _check_results(messages)
    joined = _joined(part for message in messages for part in _by_role(message))
    if not joined:
        raise InvalidRequest("contents: must have at least one part", "contents")
    return Conversation(in_call_order(joined), tuple(reader.media))


def read_instruction(value: Any) -> tuple[Message, ...]:
    """The message of `systemInstruction`: a content, its parts, or a text."""
    if value is None:
        return ()
    fields = as_object(value) or {}
    given = fields.get("parts", [fields] if "text" in fields else value)
    parts: list[Any] | None = as_list(given)
    if parts is None and (isinstance(given, str) or "text" in (as_object(given) or ())):
        parts = [given]
    if parts is None:
        place = "systemInstruction"
        raise InvalidRequest(f"{place}: must be an object with parts", place)
    texts: list[str] = []
    for index, part in enumerate(parts):
        text = as_text(part) or as_text((as_object(part) or {}).get("text"))
        if text is None:
            place = f"systemInstruction.parts[{index}]"
            raise InvalidRequest(f"{place}: must be a text", place)
        texts.append(text)
    return (Message.system(*texts),) if any(texts) else ()


class _ContentReader:
    """Reads contents one after another. Errors are `ConfigError`s with the path in the content."""

    def __init__(self) -> None:
        self.media: list[PartPlace] = []
        self._renamed: dict[str, str] = {}
        """The ids that a client has given to calls, and those that the gateway knows."""

    def message(self, value: object, place: int) -> Message:
        content = as_object(value)
        if content is None:
            raise ConfigError(": must be an object")
        content = camel_keys(content)
        role = ROLES.get(as_text(content.get("role")) or "user")
        if role is None:
            raise ConfigError(f".role: must be one of {', '.join(ROLES)}")
        items = as_items(content.get("parts"))
        if items is None:
            raise ConfigError(".parts: must be a list")
        parts = tuple([self._part(item, place, index) for index, item in enumerate(items)])
        for index, part in enumerate(parts):
            if type(part) is FunctionCall and role != "assistant":
                said = "must be in a content of the role 'model'"
                raise ConfigError(f".parts[{index}].functionCall: {said}")
            if type(part) is FunctionResponse and role != "tool":
                if role != "user":
                    said = "must be in a content of the role 'user'"
                    raise ConfigError(f".parts[{index}].functionResponse: {said}")
                role = "tool"
        extra = rest(content, "role", "parts") if len(content) > 2 else {}
        return Message(role, parts, {PROVIDER: extra} if extra else {})

    def _part(self, value: object, place: int, index: int) -> AnyPart:
        fields = as_object(value)
        if fields is None:
            raise ConfigError(f".parts[{index}]: must be an object")
        if len(fields) == 1 and type(text := fields.get("text")) is str:
            return Text(text)  # nearly all parts
        fields = camel_keys(fields)
        if "text" not in fields and fields.keys() <= _ABOUT_A_PART:
            if not fields.get("thoughtSignature"):
                raise ConfigError(f".parts[{index}]: must have content, such as text")
            fields = {**fields, "text": ""}
        token = decode_token(as_text(fields.get("thoughtSignature")))
        call = as_object(fields.get("functionCall"))
        if call is not None:
            call_id = self._call_id(call, token, place, index)
            fields = {**fields, "functionCall": {**call, "id": call_id}}
        try:
            part = decode_part(fields, "")
        except ConfigError as error:
            raise ConfigError(f".parts[{index}]{error}") from None
        return self._finished(part, token, place, index)

    def _call_id(self, call: JsonObject, token: Token, place: int, index: int) -> str:
        """The id that the gateway knows.

        A call that never had an id gets a hash of its position and text, so that the id is the same
        in every request.
        """
        given = as_text(call.get("id"))
        if not token.id and given:
            return given
        if token.id:
            if given and given != token.id:
                self._renamed[given] = token.id
            return token.id
        written = f"{place} {index} {compact_json(call)}".encode(errors="replace")
        return f"call_{hashlib.sha256(written).hexdigest()[:24]}"

    def _finished(self, part: AnyPart, token: Token, place: int, index: int) -> AnyPart:
        """The part with the model's own signature, and with the ids that the gateway knows."""
        match part:
            case InlineData(mime_type=kind) | FileData(mime_type=kind):
                at = f"contents[{place}].parts[{index}]"
                self.media.append(PartPlace(at, kind or "", _kind(kind or "")))
            case Text(signature=str()) | Thought(signature=str()) | FunctionCall(signature=str()):
                extra = {**part.extra, **token.extra} if token.extra else part.extra
                return replace(part, signature=token.signature, extra=extra)
            case FunctionResponse(id=given) if given in self._renamed:
                return replace(part, id=self._renamed[given])
            case _:
                pass
        return part


def _kind(mime: str) -> PartKind:
    family = mime.partition("/")[0]
    return "image" if family == "image" else "audio" if family == "audio" else "file"


def _check_results(messages: Sequence[Message]) -> None:
    """Raises `InvalidRequest` for a result without a call."""
    known: set[str] = set()
    for place, message in enumerate(messages):
        if message.role == "assistant":
            known.update(call.id for call in message.calls)
        elif message.role == "tool":
            for index, part in enumerate(message.parts):
                if isinstance(part, FunctionResponse) and part.id not in known:
                    at = f"contents[{place}].parts[{index}].functionResponse"
                    raise InvalidRequest(f"{at}: there is no earlier call of {part.name!r}", at)


def _by_role(message: Message) -> Iterable[Message]:
    """A content as messages: without parts none; with results beside other parts two."""
    if message.role != "tool":
        return (message,) if message.parts else ()
    others = tuple(part for part in message.parts if not isinstance(part, FunctionResponse))
    results = Message("tool", message.responses, message.extra)
    return (
        *((results,) if results.parts else ()),
        *((Message("user", others),) if others else ()),
    )


def _joined(messages: Iterable[Message]) -> list[Message]:
    """The messages with adjacent contents of the model, and adjacent results, as one message.

    Chats of google-genai store each chunk of a stream as a content.
    """
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else None
        if before and before.role == message.role and message.role in ("assistant", "tool"):
            extra = {**before.extra, **message.extra}
            joined[-1] = Message(message.role, (*before.parts, *message.parts), extra)
        else:
            joined.append(message)
    return [_with_whole_texts(message) for message in joined]


def _with_whole_texts(message: Message) -> Message:
    """The message with adjacent plain texts as one part. Signed parts stay as they are."""
    if message.role != "assistant" or len(message.parts) == 1:
        return message
    parts: list[AnyPart] = []
    pieces: list[str] = []
    kind: type[Text | Thought] = Text
    for part in message.parts:
        plain = isinstance(part, Text | Thought) and part.signature is None and not part.extra
        if pieces and (not plain or type(part) is not kind):
            parts.append(kind("".join(pieces)))
            pieces = []
        if plain and isinstance(part, Text | Thought):
            kind = type(part)
            pieces += [part.text] if part.text else []
        else:
            parts.append(part)
    if pieces:
        parts.append(kind("".join(pieces)))
    return Message(message.role, tuple(parts), message.extra)
