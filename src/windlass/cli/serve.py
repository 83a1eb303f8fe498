"""`windlass serve`: starts the gateway."""

import argparse
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from windlass.errors import ConfigError
from windlass.gateway.config import CONFIG_NAME, WorkersConfig, find_config, load_config
from windlass.gateway.observe.access_log import configure_logging

DESCRIPTION = """\
Serves the configured models to clients of OpenAI's, Anthropic's and Gemini's APIs, and executes the
configured tools. Without a file, the environment configures the gateway."""

EPILOG = """\
examples:
  windlass serve
  windlass serve --config /etc/windlass/windlass.toml --port 8081
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
    try:
        from windlass.gateway.app import create_app
        from windlass.gateway.serve import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the gateway needs {error.name}: pip install 'windlass[gateway]'"
        ) from error
    config = load_config(
        options.config or find_config(Path()), os.environ, host=options.host, port=options.port
    )
    configure_logging(options.log_level, in_json, config.server.log_content)
    if options.runs is not None:
        config = replace(config, runs=replace(config.runs, path=str(options.runs.resolve())))
    if options.workers and config.workers is None:
        config = replace(config, workers=WorkersConfig())

    def listening(address: str) -> None:
        console = f"The console is at {console_address(address)}. " if config.server.console else ""
        sys.stderr.write(f"{console}Windlass listens on {address}\n")
        sys.stderr.flush()

    serve(create_app(config), listening)
    return 0


def console_address(address: str) -> str:
    """The address for a browser on this machine, which cannot open 0.0.0.0 or [::]."""
    host, _, port = address.rpartition(":")
    return f"http://localhost:{port}/" if host in ALL_INTERFACES else f"{address}/"
