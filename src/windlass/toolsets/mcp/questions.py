"""What a server asks in the middle of a call, as a call that somebody approves, and back. Pure."""

from typing import Any, cast

import jsonschema_rs
import mcp_types as types

from windlass.content import FunctionCall, Part, Schema
from windlass.toolsets.mcp.pins import Pin

__all__ = ["change", "elicitation", "elicited"]


def elicitation(tool: str, params: types.ElicitRequestParams) -> FunctionCall:
    """What whoever approves is shown: the server's words, and the form with its defaults."""
    shown: dict[str, Any] = {"message": params.message}
    match params:
        case types.ElicitRequestURLParams():
            shown["url"] = params.url
        case types.ElicitRequestFormParams():
            shown["answer"] = _defaults(params.requested_schema)
            shown["schema"] = params.requested_schema
    return Part.from_function_call(f"{tool}:question", shown)


def elicited(
    params: types.ElicitRequestParams, approved: bool, arguments: dict[str, Any] | None
) -> types.ElicitResult:
    """The server's answer. A yes to a form needs every field that is required, and right values."""
    if not approved:
        return types.ElicitResult(action="decline")
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="accept")
    schema = params.requested_schema
    content = {**_defaults(schema), **_filled(arguments or {})}
    if not _fits(content, schema):
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content=content)


def change(tool: str, was: Pin, now: Pin) -> FunctionCall:
    """What whoever approves is shown of a tool whose description has changed."""
    shown: dict[str, Any] = {"message": f"The description of {tool} has changed. Use the new one?"}
    if was.description != now.description:
        shown["was"], shown["now"] = was.description, now.description
    if was.parameters != now.parameters:
        shown["parameters_were"], shown["parameters_now"] = was.parameters, now.parameters
    return Part.from_function_call(f"{tool}:changed", shown)


def _filled(arguments: dict[str, Any]) -> dict[str, Any]:
    """The form itself, or the shown call with the form filled in under `answer`."""
    answer = arguments.get("answer")
    if "message" in arguments and isinstance(answer, dict):
        return cast("dict[str, Any]", answer)
    return arguments


def _defaults(schema: Schema) -> dict[str, Any]:
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    return {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, dict) and "default" in field
    }


def _fits(content: dict[str, Any], schema: Schema) -> bool:
    try:
        return jsonschema_rs.is_valid(schema, content)
    except ValueError:  # the server's schema is none: nothing can be held against it
        return True
