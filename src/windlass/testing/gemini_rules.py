"""What Gemini refuses in a request, in its own words."""

import base64
import binascii
from typing import Any, cast

from msgspec import Struct

from windlass.testing.exchange import Refused
from windlass.testing.gemini_declarations import check_tools
from windlass.testing.gemini_shapes import camel, check_fields, snake, unknown_name

__all__ = ["Rules", "check_generate_request"]

_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_OPAQUE = {
    *("args", "response", "parametersJsonSchema", "responseJsonSchema", "properties", "defs"),
    *("default", "example", "enum", "labels", "partMetadata"),
}
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
_CALL_PLACE = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
_RESPONSE_PLACE = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
_ORDER = (
    "Please ensure that function response parts are in the order of the function call parts of the "
    "function call turn: expected {}, got {}."
)
_UNSIGNED = (
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. Additional data, function call `default_api:{}` , position {}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)


class Rules(Struct, frozen=True, kw_only=True):
    """What differs between Google's services and models."""

    ids: bool = True
    """Whether calls and responses may have an `id`; Vertex has refused them."""
    json_schema: bool = True
    """Whether `parametersJsonSchema` is known."""
    signatures: bool = False
    """Whether the first call of each step needs its thought signature."""


class _Turn(Struct):
    place: int
    role: str
    parts: list[dict[str, Any]]

    def holding(self, name: str) -> list[dict[str, Any]]:
        return [part[name] for part in self.parts if name in part]


def check_generate_request(body: object, rules: Rules) -> dict[str, Any]:
    """The body with every name in camel case, if Gemini would take it. Raises `Refused`."""
    if not isinstance(body, dict):
        raise _refused("Invalid JSON payload received. Unexpected end of string.")
    request = cast("dict[str, Any]", body)
    check_fields(request)
    request = cast("dict[str, Any]", _camelled(request))
    contents = cast("list[dict[str, Any]]", request.get("contents") or [])
    turns = [_turn(place, said) for place, said in enumerate(contents)]
    if not turns:
        raise _refused("* GenerateContentRequest.contents: contents is not specified")
    for turn in turns:
        for place, part in enumerate(turn.parts):
            _check_part(part, f"contents[{turn.place}].parts[{place}]", rules)
    check_tools(request, json_schema=rules.json_schema)
    merged = _merged(turns)
    _check_order(merged)
    if rules.signatures:
        _check_signatures(merged)
    return request


def _turn(place: int, said: dict[str, Any]) -> _Turn:
    role = said.get("role") or "user"
    if role not in ("user", "model"):
        raise _refused("Please use a valid role: user, model.")
    if not said.get("parts"):
        where = f"GenerateContentRequest.contents[{place}].parts"
        raise _refused(f"* {where}: contents.parts must not be empty.")
    return _Turn(place, role, said["parts"])


def _check_part(part: dict[str, Any], path: str, rules: Rules) -> None:
    data = [name for name in _DATA if name in part]
    if not data:
        where = f"GenerateContentRequest.{path}.data"
        raise _refused(f"* {where}: required oneof field 'data' must have one initialized field")
    if len(data) > 1:
        text = f"oneof field 'data' is already set. Cannot set '{data[1]}'"
        raise _refused(f"Invalid value at '{path}' (oneof), {text}")
    if not _is_base64(part.get("thoughtSignature", "")):
        raise _refused(
            f"Invalid value at '{path}.thought_signature' (TYPE_BYTES), Base64 decoding failed for "
            f'"{part["thoughtSignature"]}"'
        )
    if data[0] not in ("functionCall", "functionResponse"):
        return
    content, at = part[data[0]], f"{path}.{snake(data[0])}"
    if not rules.ids and "id" in content:
        raise unknown_name("id", at)
    if not content.get("name"):
        raise _refused(f"* GenerateContentRequest.{at}.name: Name cannot be empty.")
    field = "args" if data[0] == "functionCall" else "response"
    value = content.get(field, {} if field == "args" else None)
    if not isinstance(value, dict):
        struct = "type.googleapis.com/google.protobuf.Struct"
        raise _refused(f"Invalid value at '{at}.{field}' ({struct}), {value!r}")


def _merged(turns: list[_Turn]) -> list[_Turn]:
    """Google's own SDK sends the chunks of a streamed turn back as so many contents."""
    merged: list[_Turn] = []
    for turn in turns:
        if merged and turn.role == merged[-1].role == "model":
            merged[-1] = _Turn(merged[-1].place, "model", [*merged[-1].parts, *turn.parts])
        else:
            merged.append(turn)
    return merged


def _check_order(turns: list[_Turn]) -> None:
    asked: list[dict[str, Any]] = []
    before: _Turn | None = None
    for turn in turns:
        calls, answers = turn.holding("functionCall"), turn.holding("functionResponse")
        if answers and (turn.role == "model" or not asked):
            raise _refused(_RESPONSE_PLACE)
        if calls and (turn.role != "model" or before is None):
            raise _refused(_CALL_PLACE)
        if len(answers) != len(asked):
            raise _refused(_COUNT)
        _check_answers(asked, answers)
        asked, before = calls, turn
    if asked:
        raise _refused(_COUNT)


def _check_answers(asked: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
    wanted, given = [call["name"] for call in asked], [answer["name"] for answer in answers]
    if wanted != given:
        raise _refused(_ORDER.format(wanted, given))
    for call, answer in zip(asked, answers, strict=True):
        if answer.get("id") and answer["id"] != call.get("id"):
            raise _refused(_ORDER.format(call.get("id"), answer["id"]))


def _check_signatures(turns: list[_Turn]) -> None:
    """Each step since the last ordinary user message must be signed."""
    current: list[_Turn] = []
    for turn in turns:
        if turn.role == "user" and not turn.holding("functionResponse"):
            current = []
        current.append(turn)
    for turn in current:
        first = next((part for part in turn.parts if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            raise _refused(_UNSIGNED.format(first["functionCall"]["name"], turn.place + 1))


def _camelled(value: object) -> object:
    """Names of fields in camel case; a user's own keys stay as they are."""
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            return {
                camel(name): field if camel(name) in _OPAQUE else _camelled(field)
                for name, field in fields.items()
            }
        case list():
            return [_camelled(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(
            text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
        )
    except binascii.Error:
        return False
    return True


def _refused(message: str) -> Refused:
    return Refused(400, message)
