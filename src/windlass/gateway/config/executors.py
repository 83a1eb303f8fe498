"""Loads a custom `ToolExecutor` by its import path."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from windlass.errors import ConfigError
from windlass.gateway.config.problems import nearest
from windlass.gateway.config.tool_loading import load_module
from windlass.loop.executor import ToolExecutor

FORM = "must be 'module:name', such as 'my_tools:MyExecutor' or 'tools.py:MyExecutor'"


def load_executor(path: str, base: Path, modules: Iterable[object] = ()) -> ToolExecutor:
    """Loads the executor at `module:name`: a class, an instance or a factory.

    The module is a file, relative to `base`, or an importable name, as in `[tools] modules`. If
    `modules` contain the file of that name, the module is not loaded twice.

    Raises `ConfigError` if there is no executor at the path.
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
    """The executor of an instance, a class or a factory. Raises `ConfigError` for other values."""
    if isinstance(value, ToolExecutor):
        return value
    if not callable(value):
        raise ConfigError(f"{path!r} must be a ToolExecutor, its class or a factory, not {value!r}")
    if isinstance(value, type) and not issubclass(value, ToolExecutor):
        raise ConfigError(f"the class {path!r} must be a subclass of windlass.ToolExecutor")
    make = cast("Callable[[], object]", value)
    try:
        made = make()
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise ConfigError(f"{path!r} cannot be called without arguments: {reason}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise ConfigError(f"{path!r} is async; a factory must return the executor directly")
    if not isinstance(made, ToolExecutor):
        raise ConfigError(f"{path!r} must return a windlass.ToolExecutor, not {made!r}")
    return made
