"""Parts of messages that not every model can take, and the older form of calls. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.content import AnyPart, FunctionCall, FunctionResponse, Message
from windlass.gateway.http.errors import bad_request
from windlass.wires.chat.messages import PROVIDER
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

__all__ = ["PartPlace", "check_parts", "part_places", "without_legacy_form"]

_MEDIA = frozenset({"image_url", "input_audio", "file"})
_TAKEN: Mapping[str, frozenset[str]] = {
    "gemini": _MEDIA,
    "vertex": _MEDIA,
    "aistudio": frozenset(),
    "local": frozenset(),
}
"""The kinds of parts, beside text, that each provider can be sent. An OpenAI-compatible service is
sent all of them as they are, and refuses by itself what it cannot take."""


class PartPlace(NamedTuple):
    """A part that is not plain text."""

    place: str
    kind: str
    """Its `type`; a file that is named by its id is a `file_id`."""
    in_result: bool = False
    """Whether it is in a tool's result."""


def part_places(messages: Sequence[Any]) -> tuple[PartPlace, ...]:
    """All parts that are not text, as the client wrote them."""
    found: list[PartPlace] = []
    for index, value in enumerate(messages):
        message = as_object(value) or {}
        in_result = message.get("role") in ("tool", "function")
        for number, item in enumerate(as_list(message.get("content")) or ()):
            part = as_object(item) or {}
            kind = as_text(part.get("type")) or ""
            if kind == "file" and "file_data" not in (as_object(part.get("file")) or {}):
                kind = "file_id"
            if kind not in ("text", "refusal"):
                found.append(PartPlace(f"messages[{index}].content[{number}]", kind, in_result))
    return tuple(found)


def check_parts(parts: Sequence[PartPlace], provider: str, model: str) -> None:
    """Raises `Refused` for the first part that a model of this provider cannot be sent."""
    taken = _TAKEN.get(provider)
    if taken is None:
        return
    for part in parts:
        if part.in_result or part.kind not in taken:
            where = " in a tool's result" if part.in_result else ""
            said = f"the model {model!r} takes no parts of type {part.kind!r}{where}"
            raise bad_request(f"{part.place}: {said}", part.place, "unsupported_content")


def without_legacy_form(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with calls and results in the form of today, which is what models are sent.

    A `function_call` has no id. It gets one that is made of its place and its text, so that it is
    the same in every request.
    """
    if not any(_legacy_marks(part) for message in messages for part in message.parts):
        return messages
    ids: dict[str, str] = {}
    modern: list[Message] = []
    for place, message in enumerate(messages):
        parts = tuple(_modern(part, place, ids) for part in message.parts)
        modern.append(Message(message.role, parts, message.extra))
    return tuple(modern)


def _legacy_marks(part: AnyPart) -> set[str]:
    """The fields that would bring a part back in the older form."""
    fields: JsonObject = part.extra.get(PROVIDER, {})
    if isinstance(part, FunctionCall):
        return fields.keys() & {"function_call"}
    if isinstance(part, FunctionResponse) and fields.get("role") == "function" and part.id:
        return {"role"}
    return set()


def _modern(part: AnyPart, place: int, ids: dict[str, str]) -> AnyPart:
    """The part in the form of today; `ids` are those of earlier calls, and grow."""
    marks = _legacy_marks(part)
    if not marks or not isinstance(part, FunctionCall | FunctionResponse):
        return part
    if isinstance(part, FunctionCall):
        written = f"{place} {part.name} {part.json}".encode(errors="replace")
        ids[part.id] = f"call_{hashlib.sha256(written).hexdigest()[:24]}"
    fields: JsonObject = part.extra.get(PROVIDER, {})
    kept = {name: value for name, value in fields.items() if name not in marks}
    extra = {name: value for name, value in part.extra.items() if name != PROVIDER}
    call_id = ids.get(part.id, part.id)
    return replace(part, id=call_id, extra={**extra, **({PROVIDER: kept} if kept else {})})
