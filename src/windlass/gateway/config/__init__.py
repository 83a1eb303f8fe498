"""The gateway's configuration: out of `windlass.toml`, the environment and the command line.

The command line stands over the file, the file over the environment, and all over the defaults.
Without a file, `WINDLASS_MODEL` and `WINDLASS_TOOLS` say what is served, and any `provider/model`
is served besides.
"""

import functools
import logging
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec.structs import replace

from windlass.errors import ConfigError, DuplicateTool
from windlass.gateway.config.checks import host_problem, is_loopback
from windlass.gateway.config.environment import (
    HOST,
    MODEL,
    TOOLS,
    check_function_calling,
    models_in,
    modules_in,
    server_fields_in,
    server_overrides,
)
from windlass.gateway.config.executors import load_executor
from windlass.gateway.config.lines import Lines
from windlass.gateway.config.problems import Problem, Problems, nearest
from windlass.gateway.config.sections import Document
from windlass.gateway.config.tool_loading import ALL_OF_IT, Toolbox, named_tools
from windlass.gateway.config.values import (
    GatewayConfig,
    KeyConfig,
    LimitsConfig,
    McpConfig,
    ModelConfig,
    RunsConfig,
    ServerConfig,
    WorkersConfig,
)
from windlass.toolsets.mcp.names import SEPARATOR

__all__ = [
    "CONFIG_NAME",
    "GatewayConfig",
    "KeyConfig",
    "LimitsConfig",
    "McpConfig",
    "ModelConfig",
    "Overrides",
    "Problem",
    "RunsConfig",
    "ServerConfig",
    "WorkersConfig",
    "check_config",
    "examine_config",
    "find_config",
    "load_config",
]

log = logging.getLogger("windlass.gateway")

CONFIG_NAME = "windlass.toml"

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class Overrides(TypedDict, total=False):
    """What the command line may say: fields of `ServerConfig`. None is not said."""

    host: str | None
    port: int | None
    cors_origins: tuple[str, ...] | None
    heartbeat: float | None
    shutdown_timeout: float | None
    console: bool | None
    access_log: bool | None
    log_content: bool | None


def find_config(cwd: Path) -> Path | None:
    """The `windlass.toml` of that directory, if there is one."""
    path = cwd / CONFIG_NAME
    return path if path.is_file() else None


def load_config(
    path: Path | None, environ: Mapping[str, str], **overrides: Unpack[Overrides]
) -> GatewayConfig:
    """The configuration, checked; its tool modules are loaded on the way. Warnings are logged.

    Raises `ConfigError` that lists every problem, one a line.
    """
    config, problems = examine_config(path, environ, **overrides)
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise ConfigError("\n".join(map(str, errors)))
    for warning in problems:
        log.warning("%s", warning)
    return config


def check_config(path: Path | None, environ: Mapping[str, str]) -> list[Problem]:
    """Everything that is wrong with a configuration, as `load_config` would find it."""
    return examine_config(path, environ)[1]


def examine_config(
    path: Path | None, environ: Mapping[str, str], **overrides: Unpack[Overrides]
) -> tuple[GatewayConfig, list[Problem]]:
    """The configuration with defaults in place of what is wrong with it, and what that is."""
    if path is None:
        problems = Problems(None, lambda place: None)
        config = _from_environment(environ, overrides, problems)
        return config, problems.found
    try:
        # A file of Windows may begin with a mark of its encoding.
        text = path.read_text("utf-8-sig")
        content = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        return GatewayConfig(path=path), [_unreadable(path, error)]
    lines = functools.cache(lambda: Lines(text))
    problems = Problems(str(path), lambda place: lines().of(place))
    config = _from_file(path, content, environ, overrides, problems)
    return config, problems.found


def _from_file(
    path: Path,
    content: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Overrides,
    problems: Problems,
) -> GatewayConfig:
    document = Document(content, problems)
    tools = document.tools()
    config = GatewayConfig(
        server=_server(document, environ, overrides, problems),
        models=document.models(environ),
        tool_modules=tools.modules,
        executor=tools.executor,
        mcp=document.mcp(environ),
        keys=document.keys(),
        limits=document.limits(),
        runs=document.runs(),
        workers=document.workers(),
        path=path,
    )
    config = _with_executor(_with_tools(config, problems), problems)
    check_function_calling(environ, problems)
    return config


def _from_environment(
    environ: Mapping[str, str], overrides: Overrides, problems: Problems
) -> GatewayConfig:
    modules = modules_in(environ)
    box = Toolbox(Path())
    for module in modules:
        try:
            box.add(module)
        except ConfigError as error:
            problems.add_outside(TOOLS, str(error))
    models = models_in(environ, box.tools, problems)
    if modules and not environ.get(MODEL):
        said = f"no model gets these tools: name the models in {MODEL}"
        problems.add_outside(TOOLS, said, "warning")
    server = _server(Document({}, problems), environ, overrides, problems)
    check_function_calling(environ, problems)
    return GatewayConfig(server=server, models=models, tool_modules=modules, open_models=True)


def _server(
    document: Document, environ: Mapping[str, str], overrides: Overrides, problems: Problems
) -> ServerConfig:
    """The command line over the file over the environment; without keys, on this machine alone."""
    said = server_overrides(overrides, problems)
    in_file = document.server()
    outside = server_fields_in(environ, {**in_file, **said}, problems)
    server = ServerConfig(**{**outside, **in_file, **said})
    if document.has_keys or is_loopback(server.host) or host_problem(server.host):
        return server
    message = (
        f"without [[keys]] anybody who reaches {server.host!r} could use the models:"
        " make a key with `windlass keys new`, or listen on 127.0.0.1"
    )
    if "host" in said:
        problems.add_outside("--host", message)
    elif "host" in in_file:
        problems.add(("server", "host"), message)
    else:
        problems.add_outside(HOST, message)
    return server


def _with_tools(config: GatewayConfig, problems: Problems) -> GatewayConfig:
    """Loads the modules, starts the MCP servers that are used, and looks for the models' tools."""
    box = Toolbox(config.base)
    failed = False
    for position, module in enumerate(config.tool_modules):
        try:
            box.add(module)
        except ConfigError as error:
            problems.add(("tools", "modules", position), str(error))
            failed = failed or not isinstance(error, DuplicateTool)
    servers = [server for server in config.mcp.values() if _is_used(server, config)]
    if not any(problem.severity == "error" for problem in problems.found):
        for server in servers:
            try:
                box.add(server)
            except ConfigError as error:
                problems.add(("mcp", server.name), str(error))
                failed = True
    if failed:  # nobody knows which tools it would have had
        return config
    config = replace(config, tool_modules=(*config.tool_modules, *servers))
    _check_names(config, box, problems)
    return config


def _with_executor(config: GatewayConfig, problems: Problems) -> GatewayConfig:
    """Loads the executor that the file names."""
    if not isinstance(config.executor, str):
        return config
    try:
        executor = load_executor(config.executor, config.base, config.tool_modules)
    except ConfigError as error:
        problems.add(("tools", "executor"), str(error))
        return config
    return replace(config, executor=executor)


def _is_used(server: McpConfig, config: GatewayConfig) -> bool:
    names = (name for model in config.models.values() for name in model.tools)
    return any(name.startswith(f"{server.name}{SEPARATOR}") for name in names)


def _check_names(config: GatewayConfig, box: Toolbox, problems: Problems) -> None:
    """A server may have no tools for now; what is named by itself must be there."""
    servers = {f"{server}{ALL_OF_IT}" for server in box.servers}
    for model in config.models.values():
        for position, name in enumerate(model.tools):
            if name not in servers and not named_tools([name], box.tools):
                place = ("models", model.name, "tools", position)
                said = f"no tool module has a tool {name!r}{nearest(name, box.tools)}"
                problems.add(place, said)


def _unreadable(path: Path, error: Exception) -> Problem:
    """A file that cannot be read, or is no TOML: the line and the column, in words."""
    match error:
        case OSError():
            said = f"cannot be read: {error.strerror}"
        case UnicodeDecodeError():
            said = f"is not UTF-8: byte {error.start} cannot be read"
        case _:
            return _invalid_toml(path, str(error))
    return Problem("", said, file=str(path))


def _invalid_toml(path: Path, said: str) -> Problem:
    found = _POSITION.search(said)
    words = _POSITION.sub("", said)
    if found is None or found[1] is None:
        return Problem("", f"not valid TOML at the end of the file: {words}", file=str(path))
    message = f"not valid TOML at line {found[1]}, column {found[2]}: {words}"
    return Problem("", message, line=int(found[1]), file=str(path))
