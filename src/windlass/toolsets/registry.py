"""`ToolRegistry`: tools by name, for the process and for sessions that extend it."""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

from windlass.content import Declaration, FunctionDeclaration
from windlass.errors import ConfigError, DuplicateTool
from windlass.schema import same_arguments
from windlass.tool import Tool, as_tools


class ToolRegistry:
    """A set of tools that can change while runs are active; a run keeps the tools it started with.

    With a parent, its own tools override the parent's tools of the same name, and changes of the
    parent are visible at once. Thread-safe.
    """

    def __init__(self, items: Iterable[Any] = (), *, parent: "ToolRegistry | None" = None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._own: dict[str, Tool] = {}
        for tool in as_tools(items):
            self._own[tool.name] = tool

    @overload
    def register(
        self, item: Any, function: Callable[..., Any] | None = None, *, replace: bool = False
    ) -> Tool: ...
    @overload
    def register(self, *, replace: bool = False) -> Callable[[Callable[..., Any]], Tool]: ...
    def register(
        self,
        item: Any = None,
        function: Callable[..., Any] | None = None,
        *,
        replace: bool = False,
    ) -> Any:
        """Adds a function, a tool, or a declaration with its function. Also a decorator.

        Raises `DuplicateTool` if the name is registered here, unless `replace` is true;
        `ConfigError` if `item` is not a tool or function.
        """
        if item is None:
            return functools.partial(self.register, replace=replace)
        tool = _one_tool(item) if function is None else Tool.from_declaration(item, function)
        with self._lock:
            if tool.name in self._own and not replace:
                raise DuplicateTool(f"a tool named {tool.name!r} is already registered")
            self._own[tool.name] = tool
        return tool

    def unregister(self, name: str) -> Tool:
        """Removes a tool and returns it. Raises `ConfigError` if it is not registered here."""
        with self._lock:
            if name not in self._own:
                raise ConfigError(f"no tool named {name!r} is registered here")
            return self._own.pop(name)

    def get(self, name: str) -> Tool | None:
        """The tool with this name, here or in the parent."""
        if (own := self._own.get(name)) is not None:
            return own
        return self._parent.get(name) if self._parent else None

    def known(self, declaration: Declaration) -> Tool | None:
        """The registered tool with the declaration's name and parameters, and its description.

        None if no tool of that name has a function. Raises `ConfigError` if the tool has other
        parameters: it would receive arguments that it does not know.
        """
        if not isinstance(declaration, FunctionDeclaration):
            return None
        tool = self.get(declaration.name)
        if tool is None or not tool.runnable:
            return None
        own = tool.declaration
        assert isinstance(own, FunctionDeclaration)
        if not same_arguments(own.parameters, declaration.parameters):
            raise ConfigError(
                f"the declaration of {tool.name!r} has other parameters than the registered tool:"
                f" pass the registered tool, register(..., replace=True), or pass"
                f" Tool(declaration) to receive its calls"
            )
        if declaration.description in ("", own.description):
            return tool
        return tool.replace(description=declaration.description)

    def list(self) -> "list[Tool]":
        """All current tools: the parent's, then its own."""
        return [*self._by_name().values()]

    def session(self, items: Iterable[Any] = ()) -> "ToolRegistry":
        """A registry with this one as its parent."""
        return ToolRegistry(items, parent=self)

    async def list_tools(self) -> "list[Tool]":
        return self.list()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._by_name())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._by_name())})"

    def _by_name(self) -> dict[str, Tool]:
        inherited = self._parent._by_name() if self._parent else {}
        with self._lock:
            return {**inherited, **self._own}


registry = ToolRegistry()
"""The registry of the process."""


def _one_tool(item: Any) -> Tool:
    tools = as_tools([item])
    if len(tools) != 1:
        raise ConfigError(f"register one tool at a time, not {len(tools)}: {item!r}")
    return tools[0]
