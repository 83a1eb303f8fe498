"""The gateway's configuration, from `windlass.toml`, the environment and the command line.

The command line overrides the file, and the file overrides the environment. Without a file,
`WINDLASS_MODEL` and `WINDLASS_TOOLS` name the models and tools, and the gateway serves every other
`provider/model` too.
"""

import functools
import logging
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

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
from windlass.gateway.config.problems import (
    ConfigPath,
    ConfigProblem,
    ConfigProblems,
    LineNumbers,
    nearest,
    raise_errors,
)
from windlass.gateway.config.sections import FileReader
from windlass.gateway.config.tool_loading import (
    ALL_OF_IT,
    Toolbox,
    load_executor,
    named_tools,
    start_servers,
)
from windlass.gateway.config.values import (
    GatewayConfig,
    KeyConfig,
    LimitsConfig,
    McpConfig,
    ModelConfig,
    ResponsesConfig,
    RunsConfig,
    ServerConfig,
    WorkersConfig,
)
from windlass.toolsets.mcp.options import SEPARATOR

__all__ = [
    "CONFIG_NAME",
    "GatewayConfig",
    "KeyConfig",
    "LimitsConfig",
    "McpConfig",
    "ModelConfig",
    "Overrides",
    "ConfigProblem",
    "ResponsesConfig",
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
    """The fields of `ServerConfig` that the command line can set; None means not set."""

    host: str | None
    port: int | None
    processes: str | None
    cors_origins: tuple[str, ...] | None
    heartbeat: float | None
    shutdown_timeout: float | None
    console: bool | None
    access_log: bool | None
    log_content: bool | None


def find_config(cwd: Path) -> Path | None:
    """The `windlass.toml` of a directory, or None."""
    path = cwd / CONFIG_NAME
    return path if path.is_file() else None


def load_config(
    path: Path | None, environ: Mapping[str, str], **overrides: Unpack[Overrides]
) -> GatewayConfig:
    """Loads and checks the configuration and its tool modules, and logs warnings.

    Raises `ConfigError` with all problems, one per line.
    """
    config, problems = examine_config(path, environ, **overrides)
    raise_errors(problems)
    for warning in problems:
        log.warning("%s", warning)
    return config


def check_config(path: Path | None, environ: Mapping[str, str]) -> list[ConfigProblem]:
    """All errors and warnings that `load_config` reports."""
    return examine_config(path, environ)[1]


def examine_config(
    path: Path | None,
    environ: Mapping[str, str],
    *,
    servers: bool = True,
    **overrides: Unpack[Overrides],
) -> tuple[GatewayConfig, list[ConfigProblem]]:
    """The configuration with defaults for invalid settings, and all errors and warnings.

    Without `servers`, no MCP server is started, and no tool module loaded.
    """
    if path is None:
        problems = ConfigProblems(None, lambda place: None)
        config = _from_environment(environ, overrides, problems)
        return config, problems.found
    try:
        # Editors on Windows may write a byte order mark.
        text = path.read_text("utf-8-sig")
        content = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        return GatewayConfig(path=path), [_unreadable(path, error)]
    lines = functools.cache(lambda: LineNumbers(text))
    problems = ConfigProblems(str(path), lambda place: lines().of(place))
    config = _from_file(path, content, environ, overrides, problems)
    if servers:
        config = _with_executor(_with_tools(config, problems), problems)
        check_function_calling(environ, problems)
    return config, problems.found


def _from_file(
    path: Path,
    content: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Overrides,
    problems: ConfigProblems,
) -> GatewayConfig:
    file = FileReader(content, environ, problems).read()
    return GatewayConfig(
        server=_server(file.server, content, environ, overrides, problems),
        models=file.models,
        tool_modules=file.tools.modules,
        executor=file.tools.executor,
        prompts=file.tools.prompts,
        mcp=file.mcp,
        keys=file.keys,
        limits=file.limits,
        runs=file.runs,
        responses=file.responses,
        workers=file.workers,
        path=path,
    )


def _from_environment(
    environ: Mapping[str, str], overrides: Overrides, problems: ConfigProblems
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
        message = f"no model uses these tools: name the models in {MODEL}"
        problems.add_outside(TOOLS, message, "warning")
    server = _server(ServerConfig(), {}, environ, overrides, problems)
    check_function_calling(environ, problems)
    return GatewayConfig(server=server, models=models, tool_modules=modules, open_models=True)


def _server(
    in_file: ServerConfig,
    content: Mapping[str, Any],
    environ: Mapping[str, str],
    overrides: Overrides,
    problems: ConfigProblems,
) -> ServerConfig:
    """`[server]` with overrides. Without keys, only loopback addresses are allowed."""
    table = content.get("server")
    names = set(cast("dict[str, Any]", table)) if isinstance(table, dict) else set[str]()
    overridden = server_overrides(overrides, problems)
    in_environment = server_fields_in(environ, names | overridden.keys(), problems)
    server = replace(in_file, **in_environment, **overridden)
    if content.get("keys") or is_loopback(server.host) or host_problem(server.host):
        return server
    message = (
        f"without [[keys]] everyone who can reach {server.host!r} could use the models:"
        " make a key with `windlass keys new`, or listen on 127.0.0.1"
    )
    if "host" in overridden:
        problems.add_outside("--host", message)
    elif "host" in names:
        problems.add(("server", "host"), message)
    else:
        problems.add_outside(HOST, message)
    return server


def _with_tools(config: GatewayConfig, problems: ConfigProblems) -> GatewayConfig:
    """Loads the modules, starts the MCP servers in use, and checks the models' tool names."""
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
        start_servers(servers, config.base)
        for server in servers:
            try:
                box.add(server)
            except ConfigError as error:
                problems.add(("mcp", server.name), str(error))
                failed = True
    for name, reason in box.absent.items():
        problems.add(("mcp", name), f"{reason} (it is optional and will be tried again)", "warning")
    if failed:  # the tools of a failed module or server are unknown, so names cannot be checked
        return config
    config = replace(config, tool_modules=(*config.tool_modules, *servers))
    _check_names(config, box, problems)
    return config


def _with_executor(config: GatewayConfig, problems: ConfigProblems) -> GatewayConfig:
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
    return any(name.startswith(f"{server.name}{SEPARATOR}") for _, name in _tool_names(config))


def _tool_names(config: GatewayConfig) -> Iterator[tuple[ConfigPath, str]]:
    """The names of tools in the file, each with its place."""
    for model in config.models.values():
        for position, name in enumerate(model.tools):
            yield ("models", model.name, "tools", position), name
    for position, name in enumerate(config.workers.host_tools if config.workers else ()):
        yield ("workers", "host_tools", position), name


def _check_names(config: GatewayConfig, box: Toolbox, problems: ConfigProblems) -> None:
    """Adds a problem for each name of an unknown tool. `SERVER__*` may match no tools."""
    servers = {f"{server}{ALL_OF_IT}" for server in box.servers}
    for place, name in _tool_names(config):
        server = name.partition(SEPARATOR)[0]
        absent = server in box.absent or server in box.with_login
        if not absent and name not in servers and not named_tools([name], box.tools):
            problems.add(place, f"unknown tool {name!r}{nearest(name, box.tools)}")


def _unreadable(path: Path, error: Exception) -> ConfigProblem:
    """The problem with a file that cannot be read, or that is not valid UTF-8 or TOML."""
    match error:
        case OSError():
            message = f"cannot be read: {error.strerror}"
        case UnicodeDecodeError():
            message = f"is not UTF-8: invalid byte at position {error.start}"
        case _:
            return _invalid_toml(path, str(error))
    return ConfigProblem("", message, file=str(path))


def _invalid_toml(path: Path, reason: str) -> ConfigProblem:
    found = _POSITION.search(reason)
    reason = _POSITION.sub("", reason)
    if found is None or found[1] is None:
        return ConfigProblem("", f"not valid TOML at the end of the file: {reason}", file=str(path))
    message = f"not valid TOML at line {found[1]}, column {found[2]}: {reason}"
    return ConfigProblem("", message, line=int(found[1]), file=str(path))
