"""Declarations read from the dictionaries of other libraries: OpenAI's, Gemini's and plain ones."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.content import Declaration, FunctionDeclaration, GoogleSearch, no_parameters
from windlass.errors import ConfigError
from windlass.tool.parameters import normalised_parameters, plain_fields

__all__ = ["SEARCH_NAME", "check_name", "declarations_in", "in_json_schema", "one_declaration"]

SEARCH_NAME = "google_search"
_SEARCH_FUNCTIONS = ("googleSearch", "googleSearchRetrieval", "google_search_retrieval")
_SEARCH_KEYS = (SEARCH_NAME, *_SEARCH_FUNCTIONS)
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_JSON_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "inputSchema", "input_schema")

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


def one_declaration(value: Any) -> Declaration:
    """The only declaration in the value. Raises `ConfigError` when there is none, or more."""
    if isinstance(value, (FunctionDeclaration, GoogleSearch)):
        return value
    fields = plain_fields(value)
    if fields is None:
        raise ConfigError(f"not a declaration: {_cut(value)} ({type(value).__name__})")
    found = list(declarations_in(fields))
    if len(found) != 1:
        raise ConfigError(f"one function declaration is wanted here, not {len(found)}: {value!r}")
    return found[0]


def in_json_schema(declaration: Declaration) -> Declaration:
    """The declaration with parameters in plain JSON Schema; itself if they are that already.

    Raises `ConfigError` for parameters that are not a schema in any form.
    """
    if not isinstance(declaration, FunctionDeclaration):
        return declaration
    parameters = normalised_parameters(declaration.name, declaration.parameters)
    if parameters is declaration.parameters:
        return declaration
    return msgspec.structs.replace(declaration, parameters=parameters)


def declarations_in(value: Mapping[str, Any]) -> Iterator[Declaration]:
    """Every declaration that the dictionary holds, with its parameters as they are written there.

    Raises `ConfigError` if it holds none.
    """
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
            if isinstance(function, FunctionDeclaration):
                yield function
                continue
            fields = plain_fields(function)
            if fields is None:
                raise ConfigError(f"not a function declaration: {_cut(function)}")
            yield _function(fields, value)
    if any(key in value for key in _SEARCH_KEYS):
        yield GoogleSearch()


def _function(function: Mapping[str, Any], whole: Mapping[str, Any]) -> Declaration:
    name = function.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"not a tool: {_cut(whole)}; its function has no name")
    if name in _SEARCH_FUNCTIONS:  # clients without a word for Gemini's own search say it so
        return GoogleSearch()
    schemas = [function[key] for key in ("parameters", *_JSON_SCHEMAS) if function.get(key)]
    description = function.get("description") or ""
    strict = function.get("strict")
    return FunctionDeclaration(
        name,
        description,
        schemas[0] if schemas else no_parameters(),
        strict if isinstance(strict, bool) else None,
    )


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
