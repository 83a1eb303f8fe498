"""`windlass demo`: the gateway with a local model and a few tools, without a key or a network."""

import argparse
import asyncio
import os
import sys

from windlass.cli.arguments import port_number
from windlass.cli.model_selection import show_progress
from windlass.errors import ConfigError, StorageError
from windlass.gateway.config import GatewayConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.gateway.observe.access_log import configure_logging
from windlass.models import create_model
from windlass.models.local.model import LocalModel
from windlass.runs.sqlite.database import connect
from windlass.settings import state_directory

DESCRIPTION = """\
Serves a small language model on this machine, with tools for the weather, the time, arithmetic and
units: in the console in your browser, and over OpenAI's API. It needs no key and no network. Runs
are stored and are available again after a restart."""

EPILOG = """\
examples:
  windlass demo
  windlass demo --model smol --port 8081      # the small model: faster, but less capable
  MODEL=smol windlass demo"""

BANNER = """
Open {address} in a browser.

Windlass listens on {address} with the model {model} and the tools {tools}.
{storage}

Ask it something in a terminal:
  curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "{prompt}"}}]}}'

Or with the openai SDK:
  OpenAI(base_url="{address}/v1", api_key="none")

Ctrl-C stops it. The model is reading its tool declarations, which makes the first answer faster.
"""
PROMPT = "What is the weather in Paris?"
DEFAULT, SMALL = "qwen", "smol"
FILE = "demo.db"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--model",
        default=os.environ.get("MODEL") or None,
        help=f"{DEFAULT}, {SMALL} or a GGUF file (default: MODEL or {DEFAULT})",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: only this machine)"
    )
    parser.add_argument("--port", type=port_number, default=8080, help="0: any free port")


def run(options: argparse.Namespace) -> int:
    configure_logging("INFO")
    try:
        from windlass.cli.demo_tools import TOOLS
        from windlass.gateway.app import create_app
        from windlass.gateway.serve import serve
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the demo needs {error.name}: pip install 'windlass[gateway,local]'"
        ) from error
    name, model = _model(options.model)
    names = tuple(tool.name for tool in TOOLS)
    runs, storage = _runs()
    config = GatewayConfig(
        server=ServerConfig(host=options.host, port=options.port),
        models={name: ModelConfig(name=name, target=model.name, tools=names)},
        runs=runs,
    )
    app = create_app(config, models={name: model}, tools=TOOLS)
    with show_progress(sys.stderr) as on_progress:
        asyncio.run(model.load(on_progress))

    def listening(address: str) -> None:
        values = {"model": name, "tools": ", ".join(names), "storage": storage, "prompt": PROMPT}
        sys.stderr.write(BANNER.format(address=address, **values))
        sys.stderr.flush()

    serve(app, listening)
    return 0


def _runs() -> tuple[RunsConfig, str]:
    """Where the demo stores its runs, and the line about it in the banner."""
    file = state_directory() / FILE
    try:
        connect(file).close()  # report an unusable file now, not at every request
    except StorageError as error:
        return RunsConfig(), f"Runs are not stored: {error}."
    return RunsConfig(path=str(file)), f"Runs are stored in {file}."


def _model(requested: str | None) -> tuple[str, LocalModel]:
    """The requested model, or the best installed one. Raises `ConfigError`."""
    if requested is not None:
        return requested, _created(requested)
    try:
        return DEFAULT, _created(DEFAULT)
    except ConfigError as error:
        try:
            small = _created(SMALL)
        except ConfigError:
            raise error from None
        sys.stderr.write(f"{error}\nUsing the small model, {SMALL}.\n")
        return SMALL, small


def _created(name: str) -> LocalModel:
    model = create_model(f"local/{name}")
    assert isinstance(model, LocalModel)
    return model
