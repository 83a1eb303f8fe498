"""Tools as users list them: functions, tools, declarations, dictionaries of other libraries."""

import types
from collections.abc import Iterable, Mapping
from typing import Any, cast

from windlass.content import FunctionDeclaration, GoogleSearch
from windlass.errors import ConfigError, DuplicateTool
from windlass.tool.declarations import declarations_in
from windlass.tool.definition import Tool
from windlass.tool.parameters import plain_fields

__all__ = ["as_tools", "checked"]


def as_tools(items: Iterable[Any]) -> list[Tool]:
    """What users put in `tools=[...]`, as tools.

    Raises `DuplicateTool` for two of one name, and `ConfigError` for what cannot be a tool.
    """
    whole: Any = items
    if isinstance(whole, (str, Mapping, Tool)) or not isinstance(whole, Iterable):
        raise ConfigError(f"tools must be a list: write [...] around {whole!r}")
    return checked(tool for item in items for tool in _tools_of(item))


def checked(tools: Iterable[Tool]) -> list[Tool]:
    """The tools, if they go together. Raises `DuplicateTool`, and `ConfigError` for a circle."""
    known: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in known:
            raise DuplicateTool(f"two tools are named {tool.name!r}")
        known[tool.name] = tool
    if any(tool.options.after for tool in known.values()):
        for name in known:
            _refuse_circle(name, known, ())
    return list(known.values())


def _tools_of(item: Any) -> Iterable[Tool]:
    match item:
        case Tool():
            return (cast("Tool", item),)
        # Since Python 3.13 a classmethod over a tool gives a method around it.
        case types.MethodType() if isinstance(item.__func__, Tool):
            return (cast("Tool", item.__func__).__get__(item.__self__),)
        case FunctionDeclaration() | GoogleSearch():
            return (Tool(item),)
        case Mapping():
            declarations = declarations_in(cast("Mapping[str, Any]", item))
            return [Tool(declaration) for declaration in declarations]
        case type():
            name = item.__qualname__
            raise ConfigError(f"not a tool: the class {name}; give an instance or a method of it")
        case _ if callable(item):
            return (Tool(None, item),)
        case _ if (fields := plain_fields(item)) is not None:  # google-genai's, or the MCP SDK's
            return [Tool(declaration) for declaration in declarations_in(fields)]
        case _:
            raise ConfigError(f"not a tool: {item!r} ({type(item).__name__})")


def _refuse_circle(name: str, tools: Mapping[str, Tool], path: tuple[str, ...]) -> None:
    if name in path:
        circle = " after ".join((*path[path.index(name) :], name))
        raise ConfigError(f"these tools wait for each other: {circle}")
    for earlier in tools[name].options.after:
        if earlier in tools:
            _refuse_circle(earlier, tools, (*path, name))
