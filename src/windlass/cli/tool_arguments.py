"""A tool's arguments as people type them, made into the JSON text that a model would write."""

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError
from windlass.tool import Tool

__all__ = ["arguments_json"]


def arguments_json(tool: Tool, text: str | None, pairs: Sequence[str]) -> str:
    """The arguments: the JSON text as it is, with each `name=value` put into it.

    A value is a text where the tool takes one, else JSON if it can be read as such. Raises
    `ConfigError` for a pair that is none, and for pairs beside a text that is no JSON object.
    """
    if not pairs:
        return text or "{}"
    values = _object(text) if text else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ConfigError(f"--arg must be name=value, such as city=Paris, not {pair!r}")
        values[name] = value if _takes_text(tool, name) else _read(value)
    return msgspec.json.encode(values).decode()


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"beside --arg the arguments must be a JSON object: {error}") from error


def _takes_text(tool: Tool, name: str) -> bool:
    declaration = tool.declaration
    if not isinstance(declaration, FunctionDeclaration):
        return True
    schema: Any = declaration.parameters.get("properties", {}).get(name, {})
    match schema:
        case {"type": "string"}:
            return True
        case {"enum": [*values]} if values:
            return all(isinstance(value, str) for value in values)
        case _:
            return False


def _read(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
