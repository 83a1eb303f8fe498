"""The names of a client's tools: as the client wrote them, and as every provider accepts them."""

import hashlib
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from windlass.wires.fields import JsonObject, as_list, as_object, as_text

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
