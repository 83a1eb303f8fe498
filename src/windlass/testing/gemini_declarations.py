"""What Gemini refuses in a request's tools, in its own words."""

import re
from typing import Any, cast

from windlass.testing.exchange import Refused
from windlass.testing.gemini_shapes import not_repeating, unknown_name

__all__ = ["check_tools"]

_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_MOST_DECLARATIONS = 512
_BAD_NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, "
    "A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)


def check_tools(request: dict[str, Any], *, json_schema: bool) -> None:
    """Raises `Refused` for a bad declaration or calling mode. Field names are in camel case."""
    names: list[str] = []
    for place, made in enumerate(_items(request.get("tools"))):
        for number, declared in enumerate(_items(made.get("functionDeclarations"))):
            at = f"tools[{place}].function_declarations[{number}]"
            _check_declaration(declared, at, json_schema)
            if declared["name"] in names:
                raise _refused(f"Duplicate function declaration found: {declared['name']}")
            names.append(declared["name"])
    if len(names) > _MOST_DECLARATIONS:
        raise _refused(f"At most {_MOST_DECLARATIONS} function declarations are allowed.")
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


def _refused(message: str) -> Refused:
    return Refused(400, message)
