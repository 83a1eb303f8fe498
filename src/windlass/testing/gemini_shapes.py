"""The fields of a Gemini request. Google's servers refuse every other name."""

import re
from typing import Any, cast

from windlass.testing.exchange import Refused

__all__ = ["camel", "check_fields", "snake"]

# Each field's own shape: a name in this table, with `*` a list of them, with `{}` a map of them.
# An empty string: whatever it is, it is not looked into.
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
    """Raises `Refused` at the first name that the shape does not have."""
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


def unknown_name(name: str, path: str) -> Refused:
    return _not_a_field(name, path, "Cannot find field.")


def not_repeating(name: str, path: str) -> Refused:
    return _not_a_field(name, path, "Proto field is not repeating, cannot start list.")


def camel(name: str) -> str:
    """Google's JSON takes both spellings of a field."""
    return re.sub(r"(?<=[a-z0-9])_([a-z])", lambda match: match[1].upper(), name)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def _not_a_field(name: str, path: str, why: str) -> Refused:
    where = f" at '{path}'" if path else ""
    return _refused(f'Invalid JSON payload received. Unknown name "{name}"{where}: {why}')


def _refused(message: str) -> Refused:
    return Refused(400, message)
