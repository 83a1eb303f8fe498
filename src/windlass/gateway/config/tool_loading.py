"""The operator's tools, out of files, importable modules and MCP servers.

What a module offers: the list `TOOLS`, if it has one; else every `Tool` that it names, defined
there or imported, and what it puts into `windlass.registry` while it loads. Names that begin with
an underscore are its own business.
"""

import contextlib
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Generator, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec

from windlass.errors import ConfigError, DuplicateTool
from windlass.tool import Tool, as_tools
from windlass.toolsets.mcp.names import SEPARATOR
from windlass.toolsets.registry import registry

if TYPE_CHECKING:
    from windlass.gateway.config.values import McpConfig
    from windlass.toolsets.mcp.toolset import McpToolset

__all__ = ["ALL_OF_IT", "Toolbox", "load_module", "load_tools", "named_tools"]

ALL_OF_IT = f"{SEPARATOR}*"

_registered: dict[str, list[Tool]] = {}
"""What each module has put into the registry. It is loaded once, and registers once."""
_servers: "dict[bytes, McpToolset]" = {}
"""The MCP servers that were started, by all that is configured of them."""


def load_tools(modules: "Sequence[str | McpConfig]", base: Path) -> dict[str, Tool]:
    """The tools of all modules and servers by name. What was loaded before is not loaded again.

    Raises `ConfigError` for a module that cannot be loaded or has no tools and for a server that
    cannot be started, and `DuplicateTool` when two of them have a tool of one name.
    """
    box = Toolbox(base)
    for entry in modules:
        box.add(entry)
    return box.tools


def named_tools(names: Iterable[str], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Those of the tools that are named: one by one, or as all of a server, `files__*`."""
    found: dict[str, Tool] = {}
    for name in names:
        if name in tools:
            found[name] = tools[name]
        elif name.endswith(ALL_OF_IT):
            beginning = name.removesuffix("*")
            found.update((each, tools[each]) for each in tools if each.startswith(beginning))
    return found


class Toolbox:
    """Tools by name, gathered module by module."""

    def __init__(self, base: Path) -> None:
        """Files are looked for relative to `base`."""
        self.tools: dict[str, Tool] = {}
        """As they are when they are added."""
        self.own: dict[str, Tool] = {}
        """Those of the modules, which stay as they are."""
        self.servers: dict[str, McpToolset] = {}
        """The MCP servers among them, whose tools come and go."""
        self._base = base
        self._homes: dict[str, str] = {}

    def add(self, entry: "str | McpConfig") -> None:
        """Adds the tools of a file, `tools/weather.py`, a dotted name, `acme.tools`, or a server.

        Raises `ConfigError`, and `DuplicateTool` for names that another module has taken.
        """
        taken: list[str] = []
        if isinstance(entry, str):
            place, tools = entry, _tools_of(entry, self._base)
            self.own.update((tool.name, tool) for tool in tools)
        else:
            place, server = f"mcp.{entry.name or 'server'}", _server(entry)
            tools = server.list()
            self.servers[entry.name] = server
        for tool in tools:
            if self.tools.setdefault(tool.name, tool) is not tool:
                home = self._homes[tool.name]
                taken.append(f"two modules have a tool named {tool.name!r}: {home!r} and {place!r}")
            self._homes.setdefault(tool.name, place)
        if taken:
            raise DuplicateTool("; ".join(taken))


def _server(config: "McpConfig") -> "McpToolset":
    """Started by the first who asks for its tools; it stays until the process ends."""
    key = msgspec.json.encode(config)
    if key not in _servers:
        from windlass.toolsets.mcp import mcp

        headers = dict(config.headers)
        if config.token_env and (token := os.environ.get(config.token_env)):
            headers["Authorization"] = f"Bearer {token}"
        _servers[key] = mcp(
            config.url or config.command or "",
            name=config.name or None,
            timeout=config.timeout,
            start_timeout=config.start_timeout,
            approve=config.approve,
            trust_hints=config.trust_hints,
            on_change=config.on_change,
            state_dir=config.state_dir,
            env=config.env,
            headers=headers,
        )
    return _servers[key]


def _tools_of(entry: str, base: Path) -> list[Tool]:
    module = load_module(entry, base)
    listed = getattr(module, "TOOLS", None)
    try:
        tools = as_tools(_offered(module) if listed is None else listed)
        for tool in tools:
            _ = tool.declaration  # a signature that no model can be told of is found now
    except ConfigError as error:
        raise ConfigError(f"{entry!r}: {error}") from error
    if not tools and listed is None:
        raise ConfigError(
            f"{entry!r} has no tools: put @windlass.tool over its functions, or list them in TOOLS"
        )
    return tools


def _offered(module: ModuleType) -> list[Tool]:
    named: list[Tool] = [
        value
        for name, value in vars(module).items()
        if isinstance(value, Tool) and not name.startswith("_")
    ]
    # One tool may go by several names, and be registered besides.
    return list({id(tool): tool for tool in [*named, *_registered[module.__name__]]}.values())


def load_module(entry: str, base: Path) -> ModuleType:
    """The module of a file, relative to `base`, or of an importable name. Raises `ConfigError`."""
    name, file, folder = _location(entry, base)
    before = {tool.name: tool for tool in registry}
    try:
        with _importable(folder):
            module = _module_from(file, name) if file else importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ConfigError(_failure(entry, file, error)) from error
    new = [tool for tool in registry if before.get(tool.name) is not tool]
    _registered.setdefault(module.__name__, new)
    return module


def _location(entry: str, base: Path) -> tuple[str, Path | None, Path]:
    """The module's name, its file if it is given by one, and where it may import from.

    A file's name in the process is one that nobody else has: a `tools.py` is no rarity.
    """
    if entry.endswith(".py"):
        file = (base / Path(entry).expanduser()).resolve()
        if not file.is_file():
            raise ConfigError(f"{entry!r}: there is no file {str(file)!r}")
        digest = hashlib.sha256(os.fsencode(file)).hexdigest()[:16]
        return f"_windlass_tools_{digest}", file, file.parent
    if not all(part.isidentifier() for part in entry.split(".")):
        raise ConfigError(
            f"{entry!r} is neither a file of Python, such as 'tools.py', nor a module's name,"
            " such as 'acme.tools'"
        )
    return entry, None, base.resolve()


def _module_from(file: Path, name: str) -> ModuleType:
    if (known := sys.modules.get(name)) is not None:
        return known
    loader = SourceFileLoader(name, str(file))
    module = module_from_spec(cast("ModuleSpec", spec_from_loader(name, loader)))
    sys.modules[name] = module  # pydantic and dataclasses look a class's module up there
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _importable(folder: Path) -> Generator[None]:
    """Lets a module import its neighbours while it loads."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the module may have taken it out
            sys.path.remove(str(folder))


def _failure(entry: str, file: Path | None, error: BaseException) -> str:
    """The exception's own words, and the last line of the operator's file on the way to it."""
    if isinstance(error, ModuleNotFoundError) and f"{entry}.".startswith(f"{error.name}."):
        return f"there is no module {entry!r}"
    ends = (str(file),) if file else _source_ends(entry)
    words, line = str(error), None
    if isinstance(error, SyntaxError) and (error.filename or "").endswith(ends):
        words, line = error.msg, error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.endswith(ends):
            line = frame.lineno
    where = f"{entry!r}, line {line}" if line else f"{entry!r}"
    return f"{where}: {type(error).__name__}{f': {words}' if words else ''}"


def _source_ends(name: str) -> tuple[str, str]:
    """How the path of a module's source ends."""
    path = name.replace(".", os.sep)
    return f"{os.sep}{path}.py", f"{os.sep}{path}{os.sep}__init__.py"
