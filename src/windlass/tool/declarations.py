"""Declarations read from the dictionaries of other libraries: OpenAI's, Gemini's and plain ones."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from windlass.content import Declaration, FunctionDeclaration, GoogleSearch, Schema, no_parameters
from windlass.errors import ConfigError
from windlass.schema import mapped

__all__ = ["SEARCH_NAME", "check_name", "declarations_in", "one_declaration"]

SEARCH_NAME = "google_search"
_SEARCH_FUNCTIONS = ("googleSearch", "googleSearchRetrieval", "google_search_retrieval")
_SEARCH_KEYS = (SEARCH_NAME, *_SEARCH_FUNCTIONS)
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_JSON_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "inputSchema", "input_schema")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST_NAME = 64


def check_name(name: str) -> str:
    """The name itself. Raises `ConfigError` when a provider would refuse it."""
    if len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"the tool name {name[:80]!r} has {len(name)} characters; {_LONGEST_NAME} is the most"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"the tool name {name!r} is not valid: a letter or _ comes first,"
            " then letters, digits, _ and -"
        )
    return name


def one_declaration(value: Declaration | Mapping[str, Any]) -> Declaration:
    """The only declaration in the value. Raises `ConfigError` when there is none, or more."""
    if isinstance(value, (FunctionDeclaration, GoogleSearch)):
        return value
    found = list(declarations_in(value))
    if len(found) != 1:
        raise ConfigError(f"one function declaration is wanted here, not {len(found)}: {value!r}")
    return found[0]


def declarations_in(value: Mapping[str, Any]) -> Iterator[Declaration]:
    """Every declaration that the dictionary holds. Raises `ConfigError` if it is none at all."""
    match value:
        case {"type": "function", "function": Mapping()}:
            yield _function(value["function"], value)
        case {"name": str()}:
            yield _function(value, value)
        case _ if any(key in value for key in (*_DECLARATIONS, *_SEARCH_KEYS)):
            yield from _gemini_tool(value)
        case _:
            raise ConfigError(
                f"not a tool: {_cut(value)}; a dictionary needs 'name', or 'function'"
                " (OpenAI), or 'functionDeclarations' (Gemini)"
            )


def _gemini_tool(value: Mapping[str, Any]) -> Iterator[Declaration]:
    for key in _DECLARATIONS:
        for function in value.get(key) or ():
            yield _function(function, value)
    if any(key in value for key in _SEARCH_KEYS):
        yield GoogleSearch()


def _function(function: Mapping[str, Any], whole: Mapping[str, Any]) -> Declaration:
    name = function.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"not a tool: {_cut(whole)}; its function has no name")
    if name in _SEARCH_FUNCTIONS:  # clients without a word for Gemini's own search say it so
        return GoogleSearch()
    schemas = [function[key] for key in ("parameters", *_JSON_SCHEMAS) if function.get(key)]
    parameters = schemas[0] if schemas else no_parameters()
    if not isinstance(parameters, dict):
        raise ConfigError(f"{name}: its parameters are not a JSON Schema: {_cut(parameters)}")
    description = function.get("description") or ""
    strict = function.get("strict")
    return FunctionDeclaration(
        name,
        description,
        _json_schema(cast("Schema", parameters)),
        strict if isinstance(strict, bool) else None,
    )


def _json_schema(schema: Schema) -> Schema:
    """Gemini's dialect as JSON Schema: types in capitals, `nullable`, counts as text."""
    result = mapped(schema, _json_schema)
    if isinstance(kind := result.get("type"), str) and kind.isupper():
        result["type"] = kind.lower()
    for key in _COUNTS:
        if isinstance(count := result.get(key), str) and count.isdecimal():
            result[key] = int(count)
    if result.pop("nullable", False) is True:
        outer = {key: result.pop(key) for key in ("description", "default") if key in result}
        return {"anyOf": [result, {"type": "null"}], **outer}
    return result


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
