"""Reads the tools of a client's request, and its choice among them. Pure."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from windlass.content import FunctionDeclaration, GoogleSearch, ProviderTool
from windlass.errors import ConfigError
from windlass.model import AUTO, NONE, ToolChoice
from windlass.request import RequestLimits
from windlass.tool import InvalidSchema, Tool, as_tools
from windlass.wires.body import decoded
from windlass.wires.client_tools import check_expanded_size, invalid_tool
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import as_list, as_object, as_text
from windlass.wires.gemini.messages import PROVIDER, camel_keys

log = logging.getLogger("windlass.wires")

CALLING = "toolConfig.functionCallingConfig"
_NOT_TOOLS = frozenset({"mcpServers"})
"""Entries that Google's service itself connects to. The gateway does not."""


def read_tools(data: bytes, limits: RequestLimits) -> list[Tool]:
    """The client's functions, and tools of Google's service. Raises `InvalidRequest`."""
    items = as_list(decoded(data, "tools", limits.max_json_depth))
    if items is None:
        raise InvalidRequest("tools: must be a list", "tools")
    tools: dict[str, Tool] = {}
    for place, tool in _tools(items):
        if tool.name in tools:
            raise invalid_tool(f"{place}.name", f"two tools are named {tool.name!r}")
        tools[tool.name] = tool
    if len(tools) > limits.max_tools:
        raise InvalidRequest(
            f"tools: {len(tools)} tools exceed the limit of {limits.max_tools}",
            "tools",
            "too_many_tools",
        )
    return list(tools.values())


def _tools(items: Iterable[Any]) -> Iterator[tuple[str, Tool]]:
    hosted: set[str] = set()
    for index, item in enumerate(items):
        place, entry = f"tools[{index}]", as_object(item)
        if entry is None:
            raise invalid_tool(place, "must be an object")
        for key, value in camel_keys(entry).items():
            if key == "functionDeclarations":
                yield from _functions(value, f"{place}.{key}")
            elif key in _NOT_TOOLS:
                log.warning("Ignoring %s of a request: the gateway does not support it", key)
            elif value is not None and key not in hosted:
                hosted.add(key)
                yield place, Tool(_hosted(key, value))


def _hosted(key: str, value: Any) -> GoogleSearch | ProviderTool:
    """A tool that Google runs. Models of other services do not receive it."""
    if key in ("googleSearch", "googleSearchRetrieval") and not value:
        return GoogleSearch()
    return ProviderTool(PROVIDER, {key: value})


def _functions(value: Any, place: str) -> Iterator[tuple[str, Tool]]:
    items = as_list(value)
    if items is None:
        if value is None:
            return
        raise invalid_tool(place, "must be a list")
    for index, item in enumerate(items):
        at = f"{place}[{index}]"
        yield at, _function(item, at)


def _function(value: Any, place: str) -> Tool:
    function = as_object(value)
    if function is None:
        raise invalid_tool(place, "must be an object with a name")
    function = camel_keys(function)
    if not isinstance(function.get("name"), str):
        raise invalid_tool(f"{place}.name", "must be a string")
    if not isinstance(function.get("description"), str | None):
        raise invalid_tool(f"{place}.description", "must be a string")
    key = "parameters" if function.get("parameters") is not None else "parametersJsonSchema"
    known = {"name": function["name"], "description": function.get("description") or ""}
    if function.get(key) is not None:
        known["parameters"] = function[key]
    try:
        (tool,) = as_tools([known])
    except InvalidSchema as error:
        at = f"{place}.{key}{error.place.removeprefix('parameters')}"
        raise invalid_tool(at, f"not a schema: {error.reason}") from None
    except ConfigError as error:
        raise invalid_tool(f"{place}.name", str(error)) from None
    if isinstance(declaration := tool.declaration, FunctionDeclaration):
        check_expanded_size(declaration.parameters, f"{place}.{key}")
    return tool


def read_tool_choice(tool_config: Any) -> ToolChoice:
    """The choice of `toolConfig`. Raises `InvalidRequest`."""
    if tool_config is None:
        return AUTO
    outer = as_object(tool_config)
    if outer is None:
        raise InvalidRequest("toolConfig: must be an object", "toolConfig")
    value = camel_keys(outer).get("functionCallingConfig")
    if value is None:
        return AUTO
    config = as_object(value)
    if config is None:
        raise InvalidRequest(f"{CALLING}: must be an object", CALLING)
    config = camel_keys(config)
    names = _names(config.get("allowedFunctionNames"))
    mode = config.get("mode") or "AUTO"
    match (as_text(mode) or "").upper():
        case "AUTO" | "VALIDATED" | "MODE_UNSPECIFIED":
            return ToolChoice("auto", names) if names else AUTO
        case "ANY":
            return ToolChoice("required", names, only=bool(names))
        case "NONE":
            return NONE
        case _:
            place = f"{CALLING}.mode"
            raise InvalidRequest(f"{place}: must be AUTO, ANY, NONE or VALIDATED", place)


def _names(value: Any) -> tuple[str, ...]:
    items = as_list(value)
    place = f"{CALLING}.allowedFunctionNames"
    if items is None:
        if value is None:
            return ()
        raise InvalidRequest(f"{place}: must be a list", place)
    if not all(isinstance(item, str) for item in items):
        raise InvalidRequest(f"{place}: must be a list of names", place)
    return tuple(items)
