"""Reads the tools of a Responses request: the client's, MCP servers and hosted ones. Pure.

A tool has two names: the client's, and a flat one that every provider accepts.
"""

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from windlass.model import AUTO, ToolChoice
from windlass.request import RequestLimits
from windlass.tool import Tool
from windlass.wires.client_tools import (
    add_tool,
    check_description,
    check_number_of_tools,
    declared_tool,
    invalid_tool,
    tool_entries,
)
from windlass.wires.errors import InvalidRequest
from windlass.wires.fields import JsonObject, as_list, as_object, as_text

log = logging.getLogger("windlass.wires")

MAX_NAME_CHARS = 64
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")


class ClientName(Struct, frozen=True):
    """A tool's name on the wire."""

    name: str
    namespace: str = ""
    custom: bool = False
    """Whether the tool takes free text instead of JSON arguments."""


def flat_name(namespace: str, name: str) -> str:
    """One name for a tool in a namespace, or of an MCP server, that every provider accepts."""
    joined = f"{namespace}{'' if namespace.endswith('__') else '__'}{name}" if namespace else name
    flat = _NOT_ALLOWED.sub("_", joined)
    if flat[:1].isdigit() or flat.startswith("-"):
        flat = f"_{flat}"
    if flat == joined and len(flat) <= MAX_NAME_CHARS:
        return flat
    mark = hashlib.sha256(joined.encode(errors="replace")).hexdigest()[:8]
    return f"{flat[: MAX_NAME_CHARS - 9]}_{mark}"


class ToolNames:
    """Maps the flat names that the model uses to the names on the wire, and back."""

    def __init__(self, names: Mapping[str, ClientName]) -> None:
        self._names = names
        self._places: dict[str, list[str]] = {}
        for flat, known in names.items():
            self._places.setdefault(known.name, []).append(flat)

    def outward(self, flat: str) -> ClientName:
        """The name for the client. An unknown name is returned unchanged."""
        return self._names.get(flat) or ClientName(flat)

    def inward(self, name: str, namespace: str | None = None) -> str:
        """The flat name of a tool that the client names."""
        if namespace:
            return flat_name(namespace, name)
        if name in self._names:
            return name
        places = self._places.get(name, ())
        return places[0] if len(places) == 1 else name

    def fields(self, flat: str) -> JsonObject:
        """The fields `name` and, if there is one, `namespace`."""
        known = self.outward(flat)
        return {"name": known.name, **({"namespace": known.namespace} if known.namespace else {})}


NO_NAMES = ToolNames({})


def tool_names(tools: Iterable[object]) -> ToolNames:
    """The names of the tools of a request, as JSON values."""
    names: dict[str, ClientName] = {}
    for tool in tools:
        for namespace, fields in members(tool):
            if name := as_text(fields.get("name")):
                custom = fields.get("type") == "custom"
                names.setdefault(flat_name(namespace, name), ClientName(name, namespace, custom))
    return ToolNames(names)


def members(tool: object) -> Iterable[tuple[str, JsonObject]]:
    """The functions and custom tools in one entry of `tools`, each with its namespace."""
    fields = as_object(tool) or {}
    match fields.get("type"):
        case "function" | "custom":
            yield "", fields
        case "namespace":
            for member in as_list(fields.get("tools")) or ():
                inner = as_object(member) or {}
                if inner.get("type", "function") in ("function", "custom"):
                    yield as_text(fields.get("name")) or "", inner
        case _:
            pass


HOSTED_TYPES = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_preview",
    }
)
"""Tools that OpenAI runs or defines. Unknown types are treated in the same way."""
INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input as free text."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of a custom tool: one string."""
_SECRET_FIELDS = ("authorization", "headers")

Approving = Literal["always", "never"]


class ToolFilter(Struct, frozen=True):
    """Some tools of an MCP server: by name, or all that only read."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None


class McpTool(Struct, frozen=True, kw_only=True):
    """An MCP server that the client names in its request."""

    server_label: str
    server_url: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] = {}
    allowed_tools: ToolFilter | None = None
    """None means all tools."""
    require_approval: Approving = "always"
    """Whether calls need an approval, unless a filter decides."""
    always: ToolFilter | None = None
    never: ToolFilter | None = None
    server_description: str | None = None
    place: str = "tools[0]"

    def flat(self, name: str) -> str:
        """The name of one of its tools for the model."""
        return flat_name(self.server_label, name)


class ReadTools(Struct, frozen=True):
    """The tools of a request."""

    tools: tuple[Tool, ...] = ()
    """The client's functions and custom tools; those in a namespace have flat names."""
    mcp: tuple[McpTool, ...] = ()
    hosted: tuple[JsonObject, ...] = ()
    """Tools of the provider, as JSON values: only a model on the same wire has them."""
    names: ToolNames = NO_NAMES
    echo: tuple[JsonObject, ...] = ()
    """The tools as the response repeats them, without secrets."""


NO_TOOLS = ReadTools()


def read_tools(source: bytes, limits: RequestLimits) -> ReadTools:
    """The tools in the JSON text of `tools`. Raises `InvalidRequest`, which names the field."""
    if not source:
        return NO_TOOLS
    known = _cache.get(source)
    if known is None:
        known = _read(source, limits)
        if len(source) <= _MAX_CACHED_BYTES:
            if len(_cache) >= _MAX_CACHED_LISTS:
                _cache.clear()
            _cache[source] = known
    check_number_of_tools(known.tools, limits)
    return known


_MAX_CACHED_BYTES = 256 * 1024
_MAX_CACHED_LISTS = 128
_cache: dict[bytes, ReadTools] = {}
"""Clients send the same list in every turn."""


def client_tools(source: bytes, limits: RequestLimits) -> Sequence[Tool]:
    """The tools that the client runs; logs the hosted ones, which are skipped."""
    read = read_tools(source, limits)
    if read.hosted:
        types = ", ".join(sorted({str(tool.get("type")) for tool in read.hosted}))
        log.info("skipping hosted tools of the request: %s", types)
    return read.tools


def _read(source: bytes, limits: RequestLimits) -> ReadTools:
    items = tool_entries(source, limits)
    tools: dict[str, Tool] = {}
    mcp: list[McpTool] = []
    hosted: list[JsonObject] = []
    echo: list[JsonObject] = []
    for index, item in enumerate(items):
        place = f"tools[{index}]"
        fields = _object(item, place)
        echo.append(_echoed(fields))
        match fields.get("type"):
            case "function" | "custom" | "namespace" as kind:
                _check_namespace(fields, kind, place)
                for number, (namespace, inner) in enumerate(members(fields)):
                    at = f"{place}.tools[{number}]" if kind == "namespace" else place
                    add_tool(tools, _tool(inner, namespace, at), at, inner["name"])
            case "mcp":
                mcp.append(_mcp(fields, place))
            case str():
                hosted.append(fields)
            case _:
                raise invalid_tool(f"{place}.type", "must be a string, such as 'function'")
    return ReadTools(
        tuple(tools.values()), tuple(mcp), tuple(hosted), tool_names(items), tuple(echo)
    )


def _check_namespace(fields: JsonObject, kind: str, place: str) -> None:
    if kind != "namespace":
        return
    if not as_text(fields.get("name")):
        raise invalid_tool(f"{place}.name", "must be a non-empty string")
    if as_list(fields.get("tools")) is None:
        raise invalid_tool(f"{place}.tools", "must be a list")


def _tool(fields: JsonObject, namespace: str, place: str) -> Tool:
    name = as_text(fields.get("name"))
    if not name:
        raise invalid_tool(f"{place}.name", "must be a non-empty string")
    check_description(fields, place)
    is_custom = fields.get("type") == "custom"
    strict = fields.get("strict")
    declared: JsonObject = {
        "name": flat_name(namespace, name),
        "description": _custom_description(fields) if is_custom else fields.get("description"),
        "parameters": INPUT_SCHEMA if is_custom else fields.get("parameters"),
        "strict": strict if isinstance(strict, bool) and not is_custom else None,
    }
    given = {key: value for key, value in declared.items() if value is not None}
    return declared_tool(given, place)


def _custom_description(fields: JsonObject) -> str:
    """The description, with the grammar of the input, which the model must follow."""
    text = as_text(fields.get("description")) or ""
    match fields.get("format"):
        case {"type": "grammar", "definition": str(grammar), **others}:
            syntax = others.get("syntax") or "lark"
            return f"{text}\n\nThe input must match this grammar ({syntax}):\n{grammar}".strip()
        case _:
            return text


def _mcp(fields: JsonObject, place: str) -> McpTool:
    label = as_text(fields.get("server_label"))
    if not label:
        raise invalid_tool(f"{place}.server_label", "must be a non-empty string")
    addresses = [
        name for name in ("server_url", "connector_id", "tunnel_id") if as_text(fields.get(name))
    ]
    if len(addresses) != 1:
        raise invalid_tool(place, "needs exactly one of server_url, connector_id and tunnel_id")
    headers = as_object(fields.get("headers")) or {}
    if not all(isinstance(value, str) for value in headers.values()):
        raise invalid_tool(f"{place}.headers", "must be an object of strings")
    default, always, never = _approval(fields.get("require_approval"), place)
    return McpTool(
        server_label=label,
        server_url=as_text(fields.get("server_url")),
        connector_id=as_text(fields.get("connector_id")),
        tunnel_id=as_text(fields.get("tunnel_id")),
        authorization=as_text(fields.get("authorization")),
        headers=headers,
        allowed_tools=_filter(fields.get("allowed_tools"), f"{place}.allowed_tools"),
        require_approval=default,
        always=always,
        never=never,
        server_description=as_text(fields.get("server_description")),
        place=place,
    )


def _approval(value: object, place: str) -> tuple[Approving, ToolFilter | None, ToolFilter | None]:
    at = f"{place}.require_approval"
    fields = as_object(value)
    if value is None or value == "always":
        return "always", None, None
    if value == "never":
        return "never", None, None
    if not fields or not fields.keys() <= {"always", "never"}:
        raise invalid_tool(at, "must be 'always', 'never' or an object with these names")
    always = _filter(fields.get("always"), f"{at}.always")
    return "always", always, _filter(fields.get("never"), f"{at}.never")


def _filter(value: object, place: str) -> ToolFilter | None:
    if value is None:
        return None
    fields = as_object(value)
    names = as_list(value if fields is None else fields.get("tool_names"))
    if (fields is None and names is None) or not all(isinstance(name, str) for name in names or ()):
        raise invalid_tool(place, "must be a list of names, or an object with tool_names")
    read_only = fields.get("read_only") if fields else None
    return ToolFilter(
        None if names is None else tuple(names),
        read_only if isinstance(read_only, bool) else None,
    )


def _echoed(fields: JsonObject) -> JsonObject:
    """The tool as the response repeats it. A function has all three fields, null if absent."""
    match fields.get("type"):
        case "function":
            return {"description": None, "parameters": None, "strict": None, **fields}
        case "mcp":
            shown = {key: fields[key] for key in fields if key not in _SECRET_FIELDS}
            return {"allowed_tools": None, "require_approval": "always", **shown}
        case "namespace":
            return {"description": "", **fields}
        case _:
            return fields


def _object(value: object, place: str) -> JsonObject:
    fields = as_object(value)
    if fields is None:
        raise invalid_tool(place, "must be an object")
    return fields


# The choice among them.


def read_tool_choice(value: Any, names: ToolNames) -> ToolChoice:
    """Reads `tool_choice` in any form. Raises `InvalidRequest`.

    A choice of a hosted tool, which is skipped, means `auto`.
    """
    match value:
        case None | "auto":
            return AUTO
        case "none" | "required":
            return ToolChoice(value)
        case {"type": "function" | "custom", "name": str(name), **others}:
            namespace = as_text(others.get("namespace"))
            return ToolChoice("required", (names.inward(name, namespace),))
        case {"type": "mcp", "server_label": str(label), **others}:
            name = as_text(others.get("name"))
            return ToolChoice("required", (flat_name(label, name),) if name else ())
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": listed} if (
            tools := as_list(listed)
        ) is not None:
            allowed = _allowed(tools, names)
            if not allowed:
                return AUTO
            return ToolChoice(mode, allowed, only=mode == "required")
        case {"type": "allowed_tools"}:
            at = "tool_choice.mode"
            raise InvalidRequest(
                f"{at}: allowed_tools needs a mode ('auto' or 'required') and tools", at
            )
        case {"type": str(kind)} if kind in HOSTED_TYPES:
            return AUTO
        case _:
            raise InvalidRequest(
                "tool_choice: must be 'auto', 'none', 'required' or name a tool", "tool_choice"
            )


def _allowed(tools: list[Any], names: ToolNames) -> tuple[str, ...]:
    found: list[str] = []
    for index, tool in enumerate(tools):
        match tool:
            case {"type": "mcp", "server_label": str(label), "name": str(name)}:
                found.append(flat_name(label, name))
            case {"name": str(name), **others}:
                found.append(names.inward(name, as_text(others.get("namespace"))))
            case {"type": str()}:  # a hosted tool
                pass
            case _:
                place = f"tool_choice.tools[{index}]"
                raise InvalidRequest(f"{place}: must name a tool", place)
    return tuple(found)
