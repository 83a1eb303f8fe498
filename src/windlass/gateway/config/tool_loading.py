"""Loads tools from files, importable modules and MCP servers, and custom executors.

A module offers its list `TOOLS`. Without this list it offers every `Tool` among its names, defined
there or imported, except names that start with an underscore, and every tool that it adds to
`windlass.registry` while it loads.
"""

import contextlib
import functools
import hashlib
import importlib
import inspect
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from windlass.content import Message
from windlass.errors import ConfigError, DuplicateTool, ToolError
from windlass.gateway.config.problems import nearest
from windlass.loop.executor import ToolExecutor
from windlass.settings import state_directory
from windlass.tool import Tool, as_tools
from windlass.toolsets.mcp.options import SEPARATOR
from windlass.toolsets.registry import registry

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from windlass.gateway.config.values import McpConfig
    from windlass.toolsets.mcp.oauth import LoginStore
    from windlass.toolsets.mcp.sampling import Sampled
    from windlass.toolsets.mcp.toolset import McpToolset

ALL_OF_IT = f"{SEPARATOR}*"
EXECUTOR_FORM = "must be 'module:name', such as 'my_tools:MyExecutor' or 'tools.py:MyExecutor'"
LOGIN_REDIRECT = "http://127.0.0.1:8932/callback"
"""The address to which the browser returns after a login."""
_registered: dict[str, list[Tool]] = {}
"""The tools that each module has added to the registry; a module is loaded only once."""
_servers: "dict[bytes, McpToolset]" = {}
"""The MCP servers of this process by their encoded configuration."""


def load_tools(modules: "Sequence[str | McpConfig]", base: Path) -> dict[str, Tool]:
    """The tools of all modules and servers by name. Each is loaded once per process.

    Raises `ConfigError` for a module that cannot be loaded or has no tools and for a server that
    cannot be started, and `DuplicateTool` if two of them have a tool of the same name.
    """
    box = Toolbox(base)
    for entry in modules:
        box.add(entry)
    return box.tools


def start_servers(servers: "Iterable[McpConfig]", base: Path) -> None:
    """Starts servers at the same time, without waiting for them."""
    for server in servers:
        if server.auth is not None:
            continue
        with contextlib.suppress(ConfigError):  # raised again when its tools are listed
            mcp_toolset(server, base).start()


def named_tools(names: Iterable[str], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that `names` select: by name, or all of a server with `files__*`."""
    found: dict[str, Tool] = {}
    for name in names:
        if name in tools:
            found[name] = tools[name]
        elif name.endswith(ALL_OF_IT):
            prefix = name.removesuffix("*")
            found.update((tool, tools[tool]) for tool in tools if tool.startswith(prefix))
    return found


class Toolbox:
    """Collects the tools of modules and MCP servers by name."""

    def __init__(self, base: Path) -> None:
        """Paths of files are relative to `base`."""
        self.tools: dict[str, Tool] = {}
        """All tools, as they were when they were added."""
        self.own: dict[str, Tool] = {}
        """The tools of modules, which do not change."""
        self.servers: dict[str, McpToolset] = {}
        """The MCP servers, whose tools can change."""
        self.with_login: dict[str, McpConfig] = {}
        """The MCP servers with a login for each key."""
        self.absent: dict[str, str] = {}
        """Why optional servers could not be started yet, by name."""
        self._base = base
        self._homes: dict[str, str] = {}

    def add(self, entry: "str | McpConfig") -> None:
        """Adds the tools of a file (`tools/weather.py`), a module (`acme.tools`) or a server.

        Raises `ConfigError`, and `DuplicateTool` for names that are already in use.
        """
        taken: list[str] = []
        if isinstance(entry, str):
            place, tools = entry, _tools_of(entry, self._base)
            self.own.update((tool.name, tool) for tool in tools)
        elif entry.auth is not None:
            # Each key has its own login, so keys share no tools.
            self.with_login[entry.name] = entry
            return
        else:
            place, server = f"mcp.{entry.name or 'server'}", mcp_toolset(entry, self._base)
            self.servers[entry.name] = server
            tools = self._listed(entry, server)
        for tool in tools:
            if self.tools.setdefault(tool.name, tool) is not tool:
                home = self._homes[tool.name]
                taken.append(f"two modules have a tool named {tool.name!r}: {home!r} and {place!r}")
            self._homes.setdefault(tool.name, place)
        if taken:
            raise DuplicateTool("; ".join(taken))

    def _listed(self, entry: "McpConfig", server: "McpToolset") -> Sequence[Tool]:
        """The tools of a server; none if an optional server could not be started yet."""
        try:
            return server.list()
        except ConfigError as error:
            if not entry.optional:
                raise
            self.absent[entry.name] = str(error)
            return ()


def login_store(config: "McpConfig", owner: str = "") -> "LoginStore":
    """The login of one key's owner at a server with OAuth."""
    from windlass.toolsets.mcp.oauth import LoginStore

    secret = os.environ.get(config.client_secret_env) if config.client_secret_env else None
    return LoginStore(
        Path(config.state_dir or state_directory()),
        config.url or "",
        owner,
        client_id=config.client_id,
        client_secret=secret,
    )


def mcp_toolset(config: "McpConfig", base: Path = Path(), owner: str = "") -> "McpToolset":
    """The server, started on first use. It runs until the process exits. Raises `ConfigError`.

    `owner` is the name of the key whose login is used.
    """
    key = msgspec.json.encode((config, str(base), owner if config.auth else ""))
    if key not in _servers:
        from windlass.toolsets.mcp import mcp

        headers = dict(config.headers)
        if config.token_env and (token := os.environ.get(config.token_env)):
            headers["Authorization"] = f"Bearer {token}"
        _servers[key] = mcp(
            config.url or config.command or "",
            name=config.name or None,
            cwd=base / config.cwd if config.cwd else None,
            protocol=config.protocol,
            optional=config.optional,
            max_result_bytes=config.max_result_bytes,
            roots=[base / root for root in config.roots],
            read_resources=config.read_resources,
            sampling=functools.partial(_sample, config.sampling) if config.sampling else None,
            sampling_tokens=config.sampling_tokens,
            timeout=config.timeout,
            start_timeout=config.start_timeout,
            approve=config.approve,
            trust_hints=config.trust_hints,
            on_change=config.on_change,
            state_dir=config.state_dir,
            env=config.env,
            headers=headers,
            auth=_stored_login(config, owner) if config.auth else None,
        )
    return _servers[key]


def mcp_extras(modules: "Sequence[str | McpConfig]", base: Path) -> "list[MCPServer]":
    """The SDK's servers in these modules, whose prompts and resources MCP clients get.

    Raises `ConfigError`.
    """
    from mcp.server import MCPServer

    found: dict[int, MCPServer] = {}
    for entry in modules:
        if isinstance(entry, str):
            for value in vars(load_module(entry, base)).values():
                if isinstance(value, MCPServer):
                    extra = cast("MCPServer", value)
                    found[id(extra)] = extra
    return list(found.values())


class SamplingModel(Protocol):
    """A model that answers requests of MCP servers."""

    async def sample(self, messages: tuple[Message, ...], max_tokens: int) -> "Sampled": ...


sampling_models: "weakref.WeakValueDictionary[str, SamplingModel]" = weakref.WeakValueDictionary()
"""The models of a gateway that answer requests of MCP servers, by name."""


async def _sample(name: str, messages: tuple[Message, ...], max_tokens: int) -> "Sampled":
    model = sampling_models.get(name)
    if model is None:
        raise ToolError("no model is available for requests of MCP servers")
    return await model.sample(messages, max_tokens)


def _stored_login(config: "McpConfig", owner: str) -> Any:
    from windlass.toolsets.mcp.oauth import StoredLogin, client_metadata

    metadata = client_metadata(LOGIN_REDIRECT, config.scope)
    return StoredLogin(config.url or "", login_store(config, owner), metadata)


def _tools_of(entry: str, base: Path) -> list[Tool]:
    module = load_module(entry, base)
    listed = getattr(module, "TOOLS", None)
    try:
        tools = as_tools(_offered(module) if listed is None else listed)
        for tool in tools:
            _ = tool.declaration  # raises now for a signature that cannot be declared
    except ConfigError as error:
        raise ConfigError(f"{entry!r}: {error}") from error
    if not tools and listed is None:
        raise ConfigError(
            f"{entry!r} has no tools: decorate functions with @windlass.tool or list them in TOOLS"
        )
    return tools


def _offered(module: ModuleType) -> list[Tool]:
    named: list[Tool] = [
        value
        for name, value in vars(module).items()
        if isinstance(value, Tool) and not name.startswith("_")
    ]
    # One tool may have several names in the module and be in the registry too.
    return list({id(tool): tool for tool in [*named, *_registered[module.__name__]]}.values())


def load_module(entry: str, base: Path) -> ModuleType:
    """Loads a file, relative to `base`, or an importable name. Raises `ConfigError`."""
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
    """The module's name, its file (None for an importable name) and its import folder.

    The module of a file gets a unique name, because many files are called `tools.py`.
    """
    if entry.endswith(".py"):
        file = (base / Path(entry).expanduser()).resolve()
        if not file.is_file():
            raise ConfigError(f"{entry!r}: there is no file {str(file)!r}")
        digest = hashlib.sha256(os.fsencode(file)).hexdigest()[:16]
        return f"_windlass_tools_{digest}", file, file.parent
    if not all(part.isidentifier() for part in entry.split(".")):
        raise ConfigError(
            f"{entry!r} is neither a Python file, such as 'tools.py', nor the name of a module,"
            " such as 'acme.tools'"
        )
    return entry, None, base.resolve()


def _module_from(file: Path, name: str) -> ModuleType:
    if (known := sys.modules.get(name)) is not None:
        return known
    loader = SourceFileLoader(name, str(file))
    module = module_from_spec(cast("ModuleSpec", spec_from_loader(name, loader)))
    sys.modules[name] = module  # pydantic and dataclasses look up a class's module here
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
        with contextlib.suppress(ValueError):  # the module may have removed it
            sys.path.remove(str(folder))


def _failure(entry: str, file: Path | None, error: BaseException) -> str:
    """The message of an exception, with the last line of the operator's file in its traceback."""
    if isinstance(error, ModuleNotFoundError) and f"{entry}.".startswith(f"{error.name}."):
        return f"there is no module {entry!r}"
    suffixes = (str(file),) if file else _source_suffixes(entry)
    message, line = str(error), None
    if isinstance(error, SyntaxError) and (error.filename or "").endswith(suffixes):
        message, line = error.msg, error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.endswith(suffixes):
            line = frame.lineno
    where = f"{entry!r}, line {line}" if line else f"{entry!r}"
    return f"{where}: {type(error).__name__}{f': {message}' if message else ''}"


def _source_suffixes(name: str) -> tuple[str, str]:
    """The possible endings of the path of a module's source."""
    path = name.replace(".", os.sep)
    return f"{os.sep}{path}.py", f"{os.sep}{path}{os.sep}__init__.py"


def load_executor(path: str, base: Path, modules: Iterable[object] = ()) -> ToolExecutor:
    """Loads the executor at `module:name`: a class, an instance or a factory.

    The module is a file, relative to `base`, or an importable name, as in `[tools] modules`. If
    `modules` contain the file of that name, the module is not loaded twice.

    Raises `ConfigError` if there is no executor at the path.
    """
    module_name, colon, name = path.rpartition(":")
    if not (module_name and colon and name.isidentifier()):
        raise ConfigError(f"{EXECUTOR_FORM}, not {path!r}")
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
