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
from windlass.gateway.config.problems import nearest
from windlass.gateway.config.tool_loading import load_tools, named_tools
from windlass.model import Model
from windlass.models import PROVIDERS
from windlass.models.local.weights import OnProgress, Progress
from windlass.tool import Tool
from windlass.toolsets.mcp.options import server_from

WORDS = {
    "joining": "Joining the model's weights, once",
    "checking": "Checking the model's weights",
    "loading": "Loading the model",
}
_TENTHS = 10


@contextmanager
def progress_shown(stream: TextIO, *, quiet: bool = False) -> Generator[OnProgress | None]:
    """What to call with each step; None if nobody watches. It may be called in any thread."""
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

        def show(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bars.add_task(WORDS[progress.stage], total=None)
            # Loading has no measure: its bar moves to and fro until it is done.
            measured = progress.stage != "loading" or progress.done == progress.total
            total = progress.total if measured else None
            bars.update(tasks[progress.stage], completed=progress.done, total=total)

        yield show


def _lines(stream: TextIO) -> OnProgress:
    """A line when a stage begins, and at each tenth of it."""
    told: set[tuple[str, int]] = set()

    def show(progress: Progress) -> None:
        tenth = _TENTHS * progress.done // max(progress.total, 1)
        if (progress.stage, tenth) in told:
            return
        told.add((progress.stage, tenth))
        stream.write(f"{WORDS[progress.stage]}: {tenth * 100 // _TENTHS}%\n")
        stream.flush()

    return show


HELP = (
    "an MCP server whose tools to use: a command in quotes, or an http address; NAME=... says what"
    " their names begin with; may be given again"
)
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,31})=(.*)", re.DOTALL)


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mcp", action="append", default=[], metavar="SERVER", help=HELP)


def servers_from(given: Iterable[str]) -> list[McpConfig]:
    """Reads `"npx some-server"`, `https://...` and `NAME=` either. Raises `ConfigError`."""
    return [_server(target) for target in given]


def _server(target: str) -> McpConfig:
    named = _NAMED.fullmatch(target)
    name, target = (named[1], named[2]) if named else ("", target)
    server = server_from(target)
    if server.url is not None:
        return McpConfig(name=name, url=server.url)
    return McpConfig(name=name, command=target)


class Chosen(Struct, frozen=True):
    """A model, why it was chosen, and the tools that it gets."""

    config: ModelConfig
    because: str
    tools: tuple[Tool, ...] = ()
    runs: Path | None = None
    """Where runs are kept: the `[runs] path` of the `windlass.toml` that the model is from."""


def choose_model(name: str | None, tool_files: Sequence[str | McpConfig] = ()) -> Chosen:
    """The model of that name: `provider/model`, or one of the `windlass.toml` here.

    Without a name it is the first of `WINDLASS_MODEL`, else of `windlass.toml`, else that of the
    first provider whose key is set, else the embedded one. The tools of the files and MCP servers
    that are given stand in for those that are configured. Raises `ConfigError`.
    """
    files = tuple(load_tools(tool_files, Path()).values())
    chosen = _configured(name) if name is None or not _is_target(name) else _named(name)
    return replace(chosen, tools=files) if files else chosen


def find_tools(tool_files: Sequence[str | McpConfig] = ()) -> dict[str, Tool]:
    """The tools of the files; without any, of `windlass.toml` here, or of `WINDLASS_TOOLS`.

    Raises `ConfigError`.
    """
    if tool_files:
        return load_tools(tool_files, Path())
    path = find_config(Path())
    config = _examined(path)
    if not config.tool_modules:
        where = f"{path} names none in [tools] modules" if path else f"there is no {CONFIG_NAME}"
        raise ConfigError(
            f"no tools are named: {where} and {TOOLS} is not set; give a file, such as tools.py"
        )
    return load_tools(config.tool_modules, config.base)


def open_client(
    chosen: Chosen, log: Path | None = None, **options: Unpack[RunOptions]
) -> AsyncClient:
    """A client for it, which keeps its runs in `log`. An option overrides what is configured.

    Raises `ConfigError` if the model cannot be used.
    """
    config = chosen.config
    configured: dict[str, Any] = {
        "system": config.system,
        "mode": config.mode,
        "max_rounds": config.max_rounds,
        "on_limit": config.on_limit,
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
    """Loads a model that runs in this process, and shows on a terminal how far it is.

    Raises `ConfigError` if it cannot be loaded.
    """
    if not isinstance(model, _Loadable):
        return
    with progress_shown(sys.stderr, quiet=quiet) as on_progress:
        await model.load(on_progress)


def _is_target(name: str) -> bool:
    return name.partition("/")[0] in PROVIDERS and "/" in name


def _named(target: str) -> Chosen:
    tools = tuple(load_tools(modules_in(os.environ), Path()).values())
    return Chosen(ModelConfig(name=target, target=target), "it was asked for", tools)


def _configured(name: str | None) -> Chosen:
    if name is None and os.environ.get(MODEL):
        return _first(_examined(None), f"{MODEL} is set")
    path = find_config(Path())
    if path is None:
        return _found(name)
    config = _examined(path)
    if name is not None:
        if name not in config.models:
            raise ConfigError(
                f"{path} has no model {name!r}{nearest(name, config.models)};"
                " any provider/model can be named too"
            )
        return _of(config, config.models[name], "it was asked for")
    return _first(config, f"the first model of {path}")


def _found(name: str | None) -> Chosen:
    if name is not None:
        raise ConfigError(
            f"a model's name is provider/model, such as 'openai/gpt-5-mini', not {name!r}; a name"
            f" alone is one of {CONFIG_NAME}, and there is none here"
        )
    default = default_target()
    if default is None:
        raise ConfigError(_nothing_found())
    target, because = default
    named = _named(target)
    return Chosen(named.config, because, named.tools)


def _nothing_found() -> str:
    ways = "".join(f"\n  {way}" for way in remedies())
    which = "; OPENAI_BASE_URL is set, but not which of its models is meant"
    return (
        f"there is no model to use{which if os.environ.get('OPENAI_BASE_URL') else ''}."
        f" Name one with --model provider/model or {MODEL}, or do one of these:{ways}\n"
        "`windlass doctor` says what is there."
    )


def _first(config: GatewayConfig, because: str) -> Chosen:
    return _of(config, next(iter(config.models.values())), because)


def _of(config: GatewayConfig, model: ModelConfig, because: str) -> Chosen:
    tools = load_tools(config.tool_modules, config.base)
    named = named_tools(model.tools if model.function_calling else (), tools)
    runs = None if config.runs.path is None else config.base / config.runs.path
    return Chosen(model, because, tuple(named.values()), runs)


def _examined(path: Path | None) -> GatewayConfig:
    """Warnings are about what a gateway would serve: whoever asks one model can do without them."""
    config, problems = examine_config(path, os.environ)
    if errors := [str(problem) for problem in problems if problem.severity == "error"]:
        raise ConfigError("\n".join(errors))
    return config
