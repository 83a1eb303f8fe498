"""Which tools a request offers: the gateway's, and those that its client runs itself. Pure."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from windlass.client.options import Offer
from windlass.content import FunctionDeclaration
from windlass.errors import ConfigError
from windlass.gateway.http.body import decoded
from windlass.gateway.http.errors import bad_request
from windlass.gateway.request import Limits
from windlass.jsontext.offload import LARGE, by_size
from windlass.schema import expanded_size
from windlass.tool import InvalidSchema, Tool, as_tools
from windlass.wires.fields import JsonObject, as_list, as_object

__all__ = ["NOTHING", "Offers", "read_tools"]

log = logging.getLogger("windlass.gateway")

NOTHING = Offer({}, ())

_LONGEST_REMEMBERED = 256 * 1024
_LISTS_REMEMBERED = 128
_REFERENCES = re.compile(rb"\$ref|\\u")
"""What may be a reference: they are followed to see how large the schema is without them."""
_MAX_EXPANDED = 20_000
"""Subschemas that a schema may have once its references are replaced by what they mean."""


class Offers:
    """The offers of one model. A list of tools that comes again, as from turn to turn, is known."""

    def __init__(self, own: Mapping[str, Tool], limits: Limits) -> None:
        self._own, self._limits = own, limits
        self._made: dict[tuple[bytes, tuple[Tool, ...]], Offer] = {}

    def of(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """The gateway's own tools, the `remote` ones, which come and go, and the client's.

        Of two with one name, the gateway's own stands before the remote, and the client's before
        both.
        Raises `Refused`, which names the field.
        """
        known = self._known(tools, remote)
        if known is not None:
            return known
        return self._remembered(tools, remote, read_tools(tools, self._limits) if tools else [])

    async def read(self, tools: bytes, remote: tuple[Tool, ...] = ()) -> Offer:
        """The same as `of`, off the event loop where it takes long."""
        known = self._known(tools, remote)
        if known is not None or not tools:
            return known or self.of(tools, remote)
        size = len(tools)
        if size <= LARGE and _REFERENCES.search(tools):
            size += LARGE
        return self._remembered(tools, remote, await by_size(size, read_tools, tools, self._limits))

    def _known(self, tools: bytes, remote: tuple[Tool, ...]) -> Offer | None:
        """A long list is not even looked up: its hash alone takes long."""
        return self._made.get((tools, remote)) if len(tools) <= _LONGEST_REMEMBERED else None

    def _remembered(self, tools: bytes, remote: tuple[Tool, ...], theirs: list[Tool]) -> Offer:
        offer = self._joined(remote, theirs)
        if len(tools) <= _LONGEST_REMEMBERED:
            if len(self._made) > _LISTS_REMEMBERED:
                self._made.clear()
            self._made[tools, remote] = offer
        return offer

    def _joined(self, remote: tuple[Tool, ...], theirs: list[Tool]) -> Offer:
        tools = dict(self._own)
        for tool in remote:
            tools.setdefault(tool.name, tool)
        for tool in theirs:
            if tool.name in tools:
                log.warning(
                    "The client's own tool stands in for the gateway's", extra={"tool": tool.name}
                )
            tools[tool.name] = tool
        return Offer(tools, tuple(tool.declaration for tool in tools.values()))


def read_tools(data: bytes, limits: Limits) -> list[Tool]:
    """The client's tools. Raises `Refused`, which names the field."""
    items, max_tools = as_list(decoded(data, "tools", limits.max_json_depth)), limits.max_tools
    if items is None:
        raise bad_request("tools: must be a list", "tools")
    if len(items) > max_tools:
        raise bad_request(
            f"tools: {len(items)} are too many; {max_tools} is the most", "tools", "too_many_tools"
        )
    tools: dict[str, Tool] = {}
    for index, item in enumerate(items):
        tool = _tool(item, f"tools[{index}]")
        if tool.name in tools:
            place = f"tools[{index}].function.name"
            raise bad_request(f"{place}: two tools are named {tool.name!r}", place, "invalid_tool")
        tools[tool.name] = tool
    return list(tools.values())


def _tool(item: Any, place: str) -> Tool:
    fields = as_object(item)
    if fields is None:
        raise _invalid(place, "must be an object")
    kind = fields.get("type", "function")
    if "function" in fields or ("name" not in fields and kind == "function" and "type" in fields):
        return _function(fields.get("function"), f"{place}.function")
    if "name" in fields and kind == "function":  # the older `functions`
        return _function(fields, place)
    try:
        (tool,) = as_tools([fields])
    except (ConfigError, ValueError):
        raise _invalid(
            f"{place}.type", f"must be 'function'; there is nothing to do with {kind!r}"
        ) from None
    return tool


def _function(value: Any, place: str) -> Tool:
    function = as_object(value)
    if function is None:
        raise _invalid(place, "must be an object with a name")
    if not isinstance(function.get("name"), str):
        raise _invalid(f"{place}.name", "must be a text")
    if not isinstance(function.get("description"), str | None):
        raise _invalid(f"{place}.description", "must be a text")
    try:
        (tool,) = as_tools([_without_nulls(function)])
    except InvalidSchema as error:
        raise _invalid(f"{place}.{error.place}", f"not a JSON Schema: {error.reason}") from None
    except ConfigError as error:
        raise _invalid(f"{place}.name", str(error)) from None
    if isinstance(declaration := tool.declaration, FunctionDeclaration):
        _check_size(declaration.parameters, f"{place}.parameters")
    return tool


def _without_nulls(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _check_size(schema: JsonObject, place: str) -> None:
    has_definitions = "$defs" in schema or "definitions" in schema
    if has_definitions and expanded_size(schema, _MAX_EXPANDED) > _MAX_EXPANDED:
        raise _invalid(place, f"its references stand for more than {_MAX_EXPANDED} schemas")


def _invalid(place: str, message: str) -> Exception:
    return bad_request(f"{place}: {message}", place, "invalid_tool")
