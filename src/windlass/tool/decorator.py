"""`@tool`, bare and with options."""

import difflib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast, overload

from windlass.errors import ConfigError
from windlass.tool.definition import OnInterrupt, Tool, ToolOptions, name_of
from windlass.tool.hints import hint_names
from windlass.tool.signature import AnyCallable

__all__ = ["tool"]

P = ParamSpec("P")
R = TypeVar("R")

Earlier: TypeAlias = str | AnyCallable | Tool
"""A tool that must come first: itself, its function or its name."""


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
    cache: float | None = None,
    serial: bool = False,
    approve: bool = False,
    after: Iterable[Earlier] = (),
    retries: int = 2,
    on_interrupt: OnInterrupt | None = None,
    expose_errors: bool | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
    cache: float | None = None,
    serial: bool = False,
    approve: bool = False,
    after: Iterable[Earlier] = (),
    retries: int = 2,
    on_interrupt: OnInterrupt | None = None,
    expose_errors: bool | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: AnyCallable | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    after: Iterable[Earlier] = (),
    **options: Any,
) -> Any:
    """Makes a function a tool: `@tool` alone, with options, or `tool(function, ...)`.

    The options are those of `ToolOptions`; `after` takes tools, functions and names. Raises
    `ConfigError` for a name that providers refuse and for options that make no sense.
    """
    for option in options:
        if option not in ToolOptions.__struct_fields__:
            raise ConfigError(f"@tool has no option {option!r}{_hint(option)}")
    chosen = ToolOptions(after=_names(after), **options)

    def decorate(function: AnyCallable, around: types.FrameType | None = None) -> Tool:
        if isinstance(function, Tool):
            made = cast("Tool", function)
            return made.replace(name=name, description=description, options=chosen)
        scope = _local_names(function, around or sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        return Tool(None, function, name=name, description=description, options=chosen, scope=scope)

    if function is None:
        return decorate
    return decorate(function, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


RENAMED = {
    "requires_approval": "approve",
    "needs_approval": "approve",
    "require_confirmation": "approve",
    "approval": "approve",
    "max_retries": "retries",
    "retry": "retries",
    "ttl": "cache",
    "cache_ttl": "cache",
    "timeout_seconds": "timeout",
    "depends_on": "after",
    "exclusive": "serial",
    "show_errors": "expose_errors",
}
"""What other libraries call an option of a tool, and what it is called here."""


def _hint(option: str) -> str:
    known = [*ToolOptions.__struct_fields__, "name", "description"]
    near = difflib.get_close_matches(option, known, n=1)
    meant = RENAMED.get(option) or (near[0] if near else None)
    return f"; did you mean {meant!r}?" if meant else ""


def _names(after: Iterable[Earlier]) -> tuple[str, ...]:
    return tuple(
        item if isinstance(item, str) else item.name if isinstance(item, Tool) else name_of(item)
        for item in ((after,) if isinstance(after, str) else after)
    )


def _local_names(function: AnyCallable, around: types.FrameType) -> dict[str, Any] | None:
    """What the type hints, while they are text, need of the names around the function."""
    if around.f_locals is around.f_globals or not (names := hint_names(function)):
        return None
    known = around.f_locals
    return {name: known[name] for name in names if name in known}
