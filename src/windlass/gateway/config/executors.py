"""The executor that answers tool calls: the default one, or the operator's own."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from windlass.errors import ConfigError
from windlass.gateway.config.problems import nearest
from windlass.gateway.config.tool_loading import load_module
from windlass.loop.executor import ToolExecutor

__all__ = ["load_executor", "made_executor"]

FORM = "must be 'module:name', such as 'my_tools:MyExecutor' or 'tools.py:MyExecutor'"


def load_executor(path: str, base: Path, modules: Iterable[object] = ()) -> ToolExecutor:
    """The executor at an import path, `module:name`: a class, an instance, or a factory.

    The module is found as `[tools] modules` are: a file, relative to `base`, or an importable name.
    A name whose file is one of `modules` is that module, and is not loaded twice.

    Raises `ConfigError` for a path that leads to no executor.
    """
    module_name, colon, name = path.rpartition(":")
    if not (module_name and colon and name.isidentifier()):
        raise ConfigError(f"{FORM}, not {path!r}")
    file = f"{module_name.replace('.', '/')}.py"
    module = load_module(file if file in modules else module_name, base)
    if not hasattr(module, name):
        hint = nearest(name, vars(module))
        raise ConfigError(f"{module_name!r} has no {name!r}{hint}")
    return made_executor(getattr(module, name), path)


def made_executor(value: Any, path: str = "executor") -> ToolExecutor:
    """The executor that an instance, a class or a factory stands for. Raises `ConfigError`."""
    if isinstance(value, ToolExecutor):
        return value
    if not callable(value):
        raise ConfigError(f"{path!r} must be a ToolExecutor, its class or a factory, not {value!r}")
    if isinstance(value, type) and not issubclass(value, ToolExecutor):
        raise ConfigError(f"the class of {path!r} must be derived from windlass.ToolExecutor")
    make = cast("Callable[[], object]", value)
    try:
        made = make()
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ConfigError(f"{path!r} cannot be called without arguments: {said}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise ConfigError(f"{path!r} is async; a factory must return the executor directly")
    if not isinstance(made, ToolExecutor):
        raise ConfigError(f"{path!r} must return a windlass.ToolExecutor, not {made!r}")
    return made
