"""Validation of generateContent requests, with Gemini's error messages.

Google's servers refuse unknown field names, so `SHAPES` lists every known field.
"""

import base64
import binascii
import re
from typing import Any, cast

from msgspec import Struct

from windlass.testing.exchange import RequestRefused

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
_USER_DATA = {
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
_MISSING_SIGNATURE = (
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model "
    "performance. Additional data, function call `default_api:{}` , position {}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)


class GeminiRules(Struct, frozen=True, kw_only=True):
    """Differences between Google's services and models."""

    ids: bool = True
    """Whether calls and responses may have an `id`; Vertex refuses it."""
    json_schema: bool = True
    """Whether `parametersJsonSchema` is supported."""
    signatures: bool = False
    """Whether the first call of each model turn needs its thought signature."""


class _ContentTurn(Struct):
    place: int
    role: str
    parts: list[dict[str, Any]]

    def parts_named(self, name: str) -> list[dict[str, Any]]:
        return [part[name] for part in self.parts if name in part]


def check_generate_request(body: object, rules: GeminiRules) -> dict[str, Any]:
    """The body with camel-case names, if Gemini would accept it. Raises `RequestRefused`."""
    if not isinstance(body, dict):
        raise _refused("Invalid JSON payload received. Unexpected end of string.")
    request = cast("dict[str, Any]", body)
    check_fields(request)
    request = cast("dict[str, Any]", _with_camel_names(request))
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


def _turn(place: int, said: dict[str, Any]) -> _ContentTurn:
    role = said.get("role") or "user"
    if role not in ("user", "model"):
        raise _refused("Please use a valid role: user, model.")
    if not said.get("parts"):
        where = f"GenerateContentRequest.contents[{place}].parts"
        raise _refused(f"* {where}: contents.parts must not be empty.")
    return _ContentTurn(place, role, said["parts"])


def _check_part(part: dict[str, Any], path: str, rules: GeminiRules) -> None:
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


def _merged(turns: list[_ContentTurn]) -> list[_ContentTurn]:
    """Joins adjacent model turns: Google's SDK sends each chunk of a streamed turn as a content."""
    merged: list[_ContentTurn] = []
    for turn in turns:
        if merged and turn.role == merged[-1].role == "model":
            merged[-1] = _ContentTurn(merged[-1].place, "model", [*merged[-1].parts, *turn.parts])
        else:
            merged.append(turn)
    return merged


def _check_order(turns: list[_ContentTurn]) -> None:
    asked: list[dict[str, Any]] = []
    before: _ContentTurn | None = None
    for turn in turns:
        calls, answers = turn.parts_named("functionCall"), turn.parts_named("functionResponse")
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


def _check_signatures(turns: list[_ContentTurn]) -> None:
    """Each model turn with calls since the last ordinary user message must be signed."""
    current: list[_ContentTurn] = []
    for turn in turns:
        if turn.role == "user" and not turn.parts_named("functionResponse"):
            current = []
        current.append(turn)
    for turn in current:
        first = next((part for part in turn.parts if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            raise _refused(_MISSING_SIGNATURE.format(first["functionCall"]["name"], turn.place + 1))


def _with_camel_names(value: object) -> object:
    """Converts field names to camel case. User-defined keys do not change."""
    match value:
        case dict():
            fields = cast("dict[str, Any]", value)
            return {
                camel(name): field if camel(name) in _USER_DATA else _with_camel_names(field)
                for name, field in fields.items()
            }
        case list():
            return [_with_camel_names(item) for item in cast("list[Any]", value)]
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


# The shape of each field: a name in `SHAPES`; with `*` a list of it; with `{}` a map to it.
# An empty string means that the value is not checked.
_Shape = dict[str, str]


def _plain(names: str) -> _Shape:
    return dict.fromkeys(names.split(), "")


SHAPES: dict[str, _Shape] = {
    "request": {
        **_plain("cachedContent labels model serviceTier store safetySettings modelArmorConfig"),
        "contents": "content*",
        "systemInstruction": "content",
        "tools": "tool*",
        "toolConfig": "toolConfig",
        "generationConfig": "generationConfig",
    },
    "content": {"role": "", "parts": "part*"},
    "part": {
        **_plain("text thought thoughtSignature executableCode codeExecutionResult videoMetadata"),
        **_plain("mediaResolution partMetadata toolCall toolResponse mediaProcessing"),
        "inlineData": "blob",
        "fileData": "fileData",
        "functionCall": "functionCall",
        "functionResponse": "functionResponse",
    },
    "blob": _plain("data mimeType displayName"),
    "fileData": _plain("fileUri mimeType displayName"),
    "functionCall": _plain("id name args partialArgs willContinue"),
    "functionResponse": {
        **_plain("id name response willContinue scheduling"),
        "parts": "functionResponsePart*",
    },
    "functionResponsePart": {"inlineData": "blob", "fileData": "fileData"},
    "tool": {
        **_plain(
            "googleSearch googleSearchRetrieval googleMaps codeExecution urlContext retrieval"
        ),
        **_plain("computerUse fileSearch enterpriseWebSearch mcpServers"),
        "functionDeclarations": "functionDeclaration*",
    },
    "functionDeclaration": {
        **_plain("name description behavior parametersJsonSchema responseJsonSchema"),
        "parameters": "schema",
        "response": "schema",
    },
    "schema": {
        **_plain("type format title description nullable enum default example minItems maxItems"),
        **_plain("required minProperties maxProperties propertyOrdering minLength maxLength"),
        **_plain("pattern minimum maximum ref additionalProperties"),
        "items": "schema",
        "properties": "schema{}",
        "anyOf": "schema*",
        "defs": "schema{}",
    },
    "toolConfig": {
        **_plain("retrievalConfig includeServerSideToolInvocations"),
        "functionCallingConfig": "functionCallingConfig",
    },
    "functionCallingConfig": _plain("mode allowedFunctionNames streamFunctionCallArguments"),
    "generationConfig": {
        **_plain("stopSequences candidateCount maxOutputTokens temperature topP topK seed"),
        **_plain("presencePenalty frequencyPenalty responseLogprobs logprobs responseMimeType"),
        **_plain("responseModalities responseJsonSchema speechConfig thinkingConfig imageConfig"),
        **_plain(
            "mediaResolution audioTimestamp routingConfig modelSelectionConfig responseFormat"
        ),
        **_plain("enableEnhancedCivicAnswers"),
        "responseSchema": "schema",
    },
}


def check_fields(value: object, shape: str = "request", path: str = "") -> None:
    """Raises `RequestRefused` for the first unknown field name."""
    if not isinstance(value, dict):
        raise _refused(f"Invalid value at '{path}' ({shape}), {value!r}")
    for name, field in cast("dict[str, Any]", value).items():
        known = SHAPES[shape].get(camel(name))
        if known is None:
            raise unknown_name(name, path)
        _check_field(field, known, name, path)


def _check_field(field: object, shape: str, name: str, path: str) -> None:
    at = f"{path}.{snake(name)}" if path else snake(name)
    if shape.endswith("*"):
        for place, item in enumerate(
            cast("list[Any]", field if isinstance(field, list) else [field])
        ):
            check_fields(item, shape[:-1], f"{at}[{place}]")
    elif shape.endswith("{}") and isinstance(field, dict):
        for key, item in cast("dict[str, Any]", field).items():
            check_fields(item, shape[:-2], f"{at}[{key}]")
    elif shape and isinstance(field, list):
        raise not_repeating(name, path)
    elif shape:
        check_fields(field, shape, at)


def unknown_name(name: str, path: str) -> RequestRefused:
    return _not_a_field(name, path, "Cannot find field.")


def not_repeating(name: str, path: str) -> RequestRefused:
    return _not_a_field(name, path, "Proto field is not repeating, cannot start list.")


def camel(name: str) -> str:
    """Google accepts both `function_call` and `functionCall`."""
    return re.sub(r"(?<=[a-z0-9])_([a-z])", lambda match: match[1].upper(), name)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _not_a_field(name: str, path: str, why: str) -> RequestRefused:
    where = f" at '{path}'" if path else ""
    return _refused(f'Invalid JSON payload received. Unknown name "{name}"{where}: {why}')


_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
MAX_DECLARATIONS = 512
_BAD_NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, "
    "A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)


def check_tools(request: dict[str, Any], *, json_schema: bool) -> None:
    """Raises `RequestRefused` for an invalid declaration or mode. Expects camel-case names."""
    names: list[str] = []
    for place, made in enumerate(_items(request.get("tools"))):
        for number, declared in enumerate(_items(made.get("functionDeclarations"))):
            at = f"tools[{place}].function_declarations[{number}]"
            _check_declaration(declared, at, json_schema)
            if declared["name"] in names:
                raise _refused(f"Duplicate function declaration found: {declared['name']}")
            names.append(declared["name"])
    if len(names) > MAX_DECLARATIONS:
        raise _refused(f"At most {MAX_DECLARATIONS} function declarations are allowed.")
    config = cast("dict[str, Any]", request.get("toolConfig") or {}).get("functionCallingConfig")
    if config is not None:
        _check_calling(config, names)


def _check_declaration(declared: dict[str, Any], at: str, json_schema: bool) -> None:
    if not _NAME.fullmatch(str(declared.get("name", ""))):
        raise _refused(f"* GenerateContentRequest.{at}.name: {_BAD_NAME}")
    if "parametersJsonSchema" in declared:
        if not json_schema:
            raise unknown_name("parametersJsonSchema", at)
        if "parameters" in declared:
            where = f"GenerateContentRequest.{at}"
            raise _refused(
                f"* {where}: parameters and parameters_json_schema are mutually exclusive."
            )
    _check_schema(declared.get("parameters"), f"{at}.parameters")


def _check_schema(value: object, at: str) -> None:
    if not isinstance(value, dict):
        return
    schema = cast("dict[str, Any]", value)
    if isinstance(schema.get("type"), list):
        raise not_repeating("type", at)
    for place, word in enumerate(_items(schema.get("enum"))):
        if not isinstance(word, str):
            raise _refused(f"Invalid value at '{at}.enum[{place}]' (TYPE_STRING), {word!r}")
    _check_schema(schema.get("items"), f"{at}.items")
    for place, choice in enumerate(_items(schema.get("anyOf"))):
        _check_schema(choice, f"{at}.any_of[{place}]")
    for name, field in cast("dict[str, Any]", schema.get("properties") or {}).items():
        _check_schema(field, f"{at}.properties[{name}]")


def _check_calling(config: dict[str, Any], names: list[str]) -> None:
    mode, allowed = config.get("mode", "AUTO"), _items(config.get("allowedFunctionNames"))
    if mode not in _MODES:
        kind = "google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode"
        at = "tool_config.function_calling_config.mode"
        raise _refused(f"Invalid value at '{at}' (type.googleapis.com/{kind}), \"{mode}\"")
    if not names:
        raise _refused("Function calling config is set without function_declarations.")
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise _refused("Please set allowed_function_names only when function calling mode is ANY.")
    for name in allowed:
        if name not in names:
            raise _refused(f"allowed_function_names: {name} is not a declared function.")


def _items(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _refused(message: str) -> RequestRefused:
    return RequestRefused(400, message)
