"""The model and the tools that a command uses, and a client for them."""

import argparse
import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO, Unpack, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from windlass.cli.providers import default_target, remedies
from windlass.client import AsyncClient
from windlass.client.options import RunOptions
from windlass.errors import ConfigError
from windlass.gateway.config import (
    CONFIG_NAME,
    GatewayConfig,
    McpConfig,
    ModelConfig,
    examine_config,
    find_config,
)
from windlass.gateway.config.environment import MODEL, TOOLS, modules_in
from windlass.gateway.config.problems import nearest, raise_errors
from windlass.gateway.config.tool_loading import load_tools, named_tools
from windlass.model import Model
from windlass.models import provider_names
from windlass.models.local.weights import OnProgress, WeightsProgress
from windlass.runs.protocol import RunLog
from windlass.tool import Tool
from windlass.toolsets.mcp.options import server_from


class ModelChoice(Struct, frozen=True):
    """A model, the reason for the choice, and its tools."""

    config: ModelConfig
    because: str
    tools: tuple[Tool, ...] = ()
    runs: Path | None = None
    """The file for runs: the `[runs] path` of the `windlass.toml` that contains the model."""


def choose_model(name: str | None, tool_files: Sequence[str | McpConfig] = ()) -> ModelChoice:
    """The model with this name: `provider/model`, or a name from `windlass.toml` here.

    Without a name: `WINDLASS_MODEL`, otherwise the first model of `windlass.toml`, otherwise the
    first provider whose key is set, otherwise the embedded model. The tools of the given files and
    MCP servers replace the configured ones. Raises `ConfigError`.
    """
    files = tuple(load_tools(tool_files, Path()).values())
    chosen = _configured(name) if name is None or not _is_target(name) else _named(name)
    return replace(chosen, tools=files) if files else chosen


def find_tools(tool_files: Sequence[str | McpConfig] = ()) -> dict[str, Tool]:
    """The tools of the files; without files, of `windlass.toml` here or `WINDLASS_TOOLS`.

    Raises `ConfigError`.
    """
    if tool_files:
        return load_tools(tool_files, Path())
    path = find_config(Path())
    config = _checked_config(path)
    if not config.tool_modules:
        where = f"{path} has no [tools] modules" if path else f"there is no {CONFIG_NAME}"
        raise ConfigError(
            f"no tools: {where} and {TOOLS} is not set; name a file, such as tools.py"
        )
    return load_tools(config.tool_modules, config.base)


def open_client(
    chosen: ModelChoice, log: RunLog | Path | None = None, **options: Unpack[RunOptions]
) -> AsyncClient:
    """A client for the model that stores runs in `log`. Options override the configuration.

    Raises `ConfigError` if the model is not usable.
    """
    config = chosen.config
    configured: dict[str, Any] = {
        "system": config.system,
        "mode": config.mode,
        "max_rounds": config.max_rounds,
        "on_limit": config.on_limit,
        "max_tokens_total": config.max_tokens_total,
        "max_cost": config.max_cost,
        "prices": None if config.prices is None else {config.target: config.prices},
        "timeout": config.run_timeout,
        "tool_timeout": config.tool_timeout,
        "approval_timeout": config.approval_timeout,
        "max_parallel": config.max_parallel,
        "expose_errors": config.expose_errors,
    }
    given = {key: value for key, value in options.items() if value is not None}
    return AsyncClient(
        config.target,
        tools=chosen.tools,
        base_url=config.base_url,
        api_key=os.environ.get(config.api_key_env) if config.api_key_env else None,
        headers=config.headers or None,
        log=log,
        **cast("RunOptions", {**configured, **given}),
    )


@runtime_checkable
class _Loadable(Protocol):
    async def load(self, on_progress: OnProgress | None = None) -> None: ...


async def load_model(model: Model, *, quiet: bool = False) -> None:
    """Loads a model that runs in this process, and shows the progress on a terminal.

    Raises `ConfigError` if the model cannot be loaded.
    """
    if not isinstance(model, _Loadable):
        return
    with show_progress(sys.stderr, quiet=quiet) as on_progress:
        await model.load(on_progress)


def _is_target(name: str) -> bool:
    provider, slash, _ = name.partition("/")
    return bool(slash) and provider in provider_names()


def _named(target: str) -> ModelChoice:
    tools = tuple(load_tools(modules_in(os.environ), Path()).values())
    return ModelChoice(ModelConfig(name=target, target=target), "requested", tools)


def _configured(name: str | None) -> ModelChoice:
    if name is None and os.environ.get(MODEL):
        return _first_model(_checked_config(None), f"{MODEL} is set")
    path = find_config(Path())
    if path is None:
        return _default(name)
    config = _checked_config(path)
    if name is not None:
        if name not in config.models:
            raise ConfigError(
                f"{path} has no model {name!r}{nearest(name, config.models)}"
                " (you can also use any provider/model)"
            )
        return _configured_model(config, config.models[name], "requested")
    return _first_model(config, f"the first model of {path}")


def _default(name: str | None) -> ModelChoice:
    if name is not None:
        raise ConfigError(
            f"unknown model {name!r}: use provider/model, such as 'openai/gpt-5-mini', or a name"
            f" from {CONFIG_NAME}, which does not exist here"
        )
    default = default_target()
    if default is None:
        raise ConfigError(_no_model())
    target, because = default
    named = _named(target)
    return ModelChoice(named.config, because, named.tools)


def _no_model() -> str:
    ways = "".join(f"\n  {way}" for way in remedies())
    hint = "; OPENAI_BASE_URL is set, but no model is named"
    return (
        f"no usable model{hint if os.environ.get('OPENAI_BASE_URL') else ''}."
        f" Name one with --model provider/model or {MODEL}, or do one of these:{ways}\n"
        "`windlass doctor` checks the installation."
    )


def _first_model(config: GatewayConfig, because: str) -> ModelChoice:
    return _configured_model(config, next(iter(config.models.values())), because)


def _configured_model(config: GatewayConfig, model: ModelConfig, because: str) -> ModelChoice:
    tools = load_tools(config.tool_modules, config.base)
    named = named_tools(model.tools if model.function_calling else (), tools)
    runs = None if config.runs.path is None else config.base / config.runs.path
    return ModelChoice(model, because, tuple(named.values()), runs)


def _checked_config(path: Path | None) -> GatewayConfig:
    """The configuration without its warnings, which concern only a gateway."""
    config, problems = examine_config(path, os.environ)
    raise_errors(problems)
    return config


MCP_HELP = (
    "an MCP server with tools: a command in quotes, or an http address; NAME=... sets the prefix of"
    " their names; can be repeated"
)
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})=(.*)", re.DOTALL)


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mcp", action="append", default=[], metavar="SERVER", help=MCP_HELP)


def servers_from(given: Iterable[str]) -> list[McpConfig]:
    """Reads `"npx some-server"` and `https://...`, each with an optional `NAME=`.

    Raises `ConfigError`.
    """
    return [_server(target) for target in given]


def _server(target: str) -> McpConfig:
    named = _NAMED.fullmatch(target)
    name, target = (named[1], named[2]) if named else ("", target)
    server = server_from(target)
    if server.url is not None:
        return McpConfig(name=name, url=server.url)
    return McpConfig(name=name, command=target)


STAGES = {
    "joining": "Joining the model's weights (only once)",
    "checking": "Checking the model's weights",
    "loading": "Loading the model",
    "reading": "Reading the instructions and tools",
}
_STEPS = 10


@contextmanager
def show_progress(stream: TextIO, *, quiet: bool = False) -> Generator[OnProgress | None]:
    """The callback for progress: a bar with rich, lines without it; None without a terminal.

    It can be called in any thread.
    """
    if quiet or not stream.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, TaskID, TextColumn
        from rich.progress import Progress as Bars
    except ModuleNotFoundError:
        yield _lines(stream)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
    )
    with Bars(*columns, console=Console(file=stream), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(progress: WeightsProgress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(STAGES[progress.stage], total=None)
            # Loading reports no progress: its bar is indeterminate until the end.
            measured = progress.stage != "loading" or progress.done == progress.total
            total = progress.total if measured else None
            bars.update(tasks[progress.stage], completed=progress.done, total=total)

        yield show


def _lines(stream: TextIO) -> OnProgress:
    """Writes a line at the start and at each tenth of a stage."""
    written: set[tuple[str, int]] = set()

    def show(progress: WeightsProgress) -> None:
        tenth = _STEPS * progress.done // max(progress.total, 1)
        if (progress.stage, tenth) in written:
            return
        written.add((progress.stage, tenth))
        stream.write(f"{STAGES[progress.stage]}: {tenth * 100 // _STEPS}%\n")
        stream.flush()

    return show
