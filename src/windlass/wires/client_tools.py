"""Reads the tools that a client declares: the checks that the readers of several wires share. Pure.

An error names the place in the client's list, such as `tools[0].parameters`.
"""

from collections.abc import Sized
from typing import Any

from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError
from windlass.request import RequestLimits
from windlass.schema import expanded_size
from windlass.tool import InvalidSchema, Tool, as_tools
from windlass.wires.body import decoded
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list

MAX_EXPANDED = 20_000
"""The maximum number of subschemas in a schema after its references are expanded."""


def invalid_tool(place: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{place}: {message}", place, "invalid_tool")


def tool_entries(data: bytes, limits: RequestLimits) -> list[Any]:
    """The entries of `tools`, from their JSON text. Raises `InvalidRequest`."""
    entries = as_list(decoded(data, "tools", limits.max_json_depth))
    if entries is None:
        raise InvalidRequest("tools: must be a list", "tools")
    return entries


def check_number_of_tools(tools: Sized, limits: RequestLimits) -> None:
    """Raises `InvalidRequest` if there are more tools than the limit."""
    if len(tools) > limits.max_tools:
        raise InvalidRequest(
            f"tools: {len(tools)} tools exceed the limit of {limits.max_tools}",
            "tools",
            "too_many_tools",
        )


def add_tool(tools: dict[str, Tool], tool: Tool, place: str, name: str | None = None) -> None:
    """Adds a tool. Raises `InvalidRequest` if there is one of that name; `name` is the client's."""
    if tool.name in tools:
        raise invalid_tool(f"{place}.name", f"two tools are named {name or tool.name!r}")
    tools[tool.name] = tool


def check_tool_texts(fields: JsonObject, place: str) -> None:
    """Raises `InvalidRequest` unless the name and the description are strings."""
    if not isinstance(fields.get("name"), str):
        raise invalid_tool(f"{place}.name", "must be a string")
    check_description(fields, place)


def check_description(fields: JsonObject, place: str) -> None:
    """Raises `InvalidRequest` unless the description is a string or absent."""
    if not isinstance(fields.get("description"), str | None):
        raise invalid_tool(f"{place}.description", "must be a string")


def declared_tool(
    declaration: JsonObject, place: str, schema: str = "parameters", kind: str = "JSON Schema"
) -> Tool:
    """The tool of a plain declaration. Raises `InvalidRequest`.

    `schema` is the client's field for the parameters, and `kind` what it must be.
    """
    try:
        (tool,) = as_tools([declaration])
    except InvalidSchema as error:
        at = f"{place}.{schema}{error.place.removeprefix('parameters')}"
        raise invalid_tool(at, f"not a {kind}: {error.reason}") from None
    except ConfigError as error:
        raise invalid_tool(f"{place}.name", str(error)) from None
    if isinstance(declared := tool.declaration, FunctionDeclaration):
        check_expanded_size(declared.parameters, f"{place}.{schema}")
    return tool


def check_expanded_size(schema: JsonObject, place: str) -> None:
    """Raises `InvalidRequest` for a small schema whose references make it huge."""
    has_definitions = "$defs" in schema or "definitions" in schema
    if has_definitions and expanded_size(schema, MAX_EXPANDED) > MAX_EXPANDED:
        raise invalid_tool(place, f"its references expand to more than {MAX_EXPANDED} schemas")
