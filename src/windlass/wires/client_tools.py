"""Errors and limits that every reader of client tools shares. Pure."""

from windlass.schema import expanded_size
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject

MAX_EXPANDED = 20_000
"""The maximum number of subschemas in a schema after its references are expanded."""


def invalid_tool(place: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{place}: {message}", place, "invalid_tool")


def check_expanded_size(schema: JsonObject, place: str) -> None:
    """Raises `InvalidRequest` for a small schema whose references make it huge."""
    has_definitions = "$defs" in schema or "definitions" in schema
    if has_definitions and expanded_size(schema, MAX_EXPANDED) > MAX_EXPANDED:
        raise invalid_tool(place, f"its references expand to more than {MAX_EXPANDED} schemas")
