"""`windlass serve`: starts the gateway."""

import argparse
import functools
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from windlass.errors import ConfigError
from windlass.gateway.config import (
    CONFIG_NAME,
    GatewayConfig,
    Overrides,
    WorkersConfig,
    examine_config,
    find_config,
    load_config,
)
from windlass.gateway.config.problems import raise_errors
from windlass.gateway.observe.access_log import configure_logging
from windlass.gateway.processes.member import Member, assignment, with_assignment

DESCRIPTION = """\
Serves the configured models to clients of OpenAI's, Anthropic's and Gemini's APIs, and executes the
configured tools. Without a file, the environment configures the gateway."""

EPILOG = """\
examples:
  windlass serve
  windlass serve --config /etc/windlass/windlass.toml --port 8081
  windlass serve --processes auto
  WINDLASS_MODEL=gemini/gemini-2.5-flash WINDLASS_TOOLS=tools.py windlass serve

  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model": "fast", "messages": [{"role": "user", "content": "Weather in Paris?"}]}'"""


ALL_INTERFACES = ("http://0.0.0.0", "http://[::]")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"default: {CONFIG_NAME} in this directory"
    )
    parser.add_argument(
        "--host", help="the address to listen on; addresses other than this machine need keys"
    )
    parser.add_argument("--port", type=int, help="0: any free port")
    parser.add_argument(
        "--processes",
        metavar="N",
        help="how many processes serve the port; auto: one for each core; default: 1",
    )
    parser.add_argument(
        "--runs",
        type=Path,
        metavar="FILE",
        help="store runs in this file, so that they survive a crash",
    )
    parser.add_argument(
        "--workers",
        action="store_true",
        help="accept tools of workers, over a NATS server (started here if none is configured)",
    )
    parser.add_argument("--log-level", default="INFO", metavar="LEVEL", help="default: INFO")
    parser.add_argument(
        "--log-format",
        choices=("json", "text"),
        help="default: text on a terminal, otherwise json",
    )


def run(options: argparse.Namespace) -> int:
    in_json = None if options.log_format is None else options.log_format == "json"
    configure_logging(options.log_level, in_json)
    assigned = assignment()
    if assigned is None and (several := _several_processes(options)) is not None:
        return several
    try:
        from windlass.gateway.app import create_app
        from windlass.gateway.serve import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the gateway needs {error.name}: pip install 'windlass[gateway]'"
        ) from error
    config = load_config(_config_path(options), os.environ, **_overrides(options))
    configure_logging(options.log_level, in_json, config.server.log_content)
    config = _with_options(config, options)
    if assigned is not None:
        serve(create_app(with_assignment(config, assigned), member=Member(assigned)), _no_message)
    else:
        serve(create_app(config), functools.partial(_show_address, config))
    return 0


def _config_path(options: argparse.Namespace) -> Path | None:
    return options.config or find_config(Path())


def _overrides(options: argparse.Namespace) -> Overrides:
    return {"host": options.host, "port": options.port, "processes": options.processes}


def _several_processes(options: argparse.Namespace) -> int | None:
    """Runs the supervisor and returns its exit code; None if one process is to serve.

    Raises `ConfigError` if the address is in use. Each process reports other problems.
    """
    path = _config_path(options)
    config, problems = examine_config(path, os.environ, servers=False, **_overrides(options))
    if config.server.processes == 1:
        return None
    raise_errors(problems)
    from windlass.gateway.processes.supervisor import serve_processes

    return serve_processes(
        _with_options(config, options),
        _arguments(options),
        functools.partial(_show_address, config),
    )


def _arguments(options: argparse.Namespace) -> list[str]:
    """The arguments of a process of several."""
    given = {
        "--config": options.config,
        "--host": options.host,
        "--port": options.port,
        "--runs": options.runs,
        "--log-level": options.log_level,
        "--log-format": options.log_format,
    }
    words = [str(word) for each in given.items() if each[1] is not None for word in each]
    return ["serve", *words, *(["--workers"] if options.workers else [])]


def _with_options(config: GatewayConfig, options: argparse.Namespace) -> GatewayConfig:
    if options.runs is not None:
        config = replace(config, runs=replace(config.runs, path=str(options.runs.resolve())))
    if options.workers and config.workers is None:
        config = replace(config, workers=WorkersConfig())
    return config


def _show_address(config: GatewayConfig, address: str) -> None:
    console = f"The console is at {console_address(address)}. " if config.server.console else ""
    sys.stderr.write(f"{console}Windlass listens on {address}\n")
    sys.stderr.flush()


def _no_message(address: str) -> None:
    """The supervisor shows the address."""


def console_address(address: str) -> str:
    """The address for a browser on this machine, which cannot open 0.0.0.0 or [::]."""
    host, _, port = address.rpartition(":")
    return f"http://localhost:{port}/" if host in ALL_INTERFACES else f"{address}/"
