"""`windlass demo`: the gateway with a model of this machine and a few tools: no key, no network."""

import argparse
import asyncio
import os
import sys

from windlass.cli.arguments import port_number
from windlass.cli.model_selection import progress_shown
from windlass.errors import ConfigError, StorageError
from windlass.gateway.config import GatewayConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.gateway.observe.access_log import configure_logging
from windlass.models import create_model
from windlass.models.local.model import LocalModel
from windlass.runs.sqlite.database import connect
from windlass.settings import state_directory

DESCRIPTION = """\
Serves a small language model that runs on this machine, with tools for the weather, the time,
arithmetic and units: on a page for your browser, and behind OpenAI's wire. It needs no key and no
network. Its runs are kept, and found again when it is started again."""

EPILOG = """\
examples:
  windlass demo
  windlass demo --model smol --port 8081      # the light model: quick, and not very bright
  MODEL=smol windlass demo"""

BANNER = """
Open {address} in a browser.

Windlass listens on {address} with the model {model} and the tools {tools}.
{kept}

Ask it something from here:
  curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "{prompt}"}}]}}'

Or with the openai SDK:
  OpenAI(base_url="{address}/v1", api_key="none")

Ctrl-C ends it. The model reads about its tools now, so that the first answer comes sooner.
"""
PROMPT = "What is the weather in Paris?"
DEFAULT, LIGHT = "qwen", "smol"
FILE = "demo.db"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--model",
        default=os.environ.get("MODEL") or None,
        help=f"{DEFAULT}, {LIGHT} or a GGUF file (default: MODEL, else {DEFAULT})",
    )
    parser.add_argument("--host", default="127.0.0.1", help="an address of this machine alone")
    parser.add_argument("--port", type=port_number, default=8080, help="0 takes any that is free")


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
    runs, kept = _runs()
    config = GatewayConfig(
        server=ServerConfig(host=options.host, port=options.port),
        models={name: ModelConfig(name=name, target=model.name, tools=names)},
        runs=runs,
    )
    app = create_app(config, models={name: model}, tools=TOOLS)
    with progress_shown(sys.stderr) as on_progress:
        asyncio.run(model.load(on_progress))

    def listening(address: str) -> None:
        told = {"model": name, "tools": ", ".join(names), "kept": kept, "prompt": PROMPT}
        sys.stderr.write(BANNER.format(address=address, **told))
        sys.stderr.flush()

    serve(app, listening)
    return 0


def _runs() -> tuple[RunsConfig, str]:
    """Where the demo keeps its runs, and what it says of that."""
    file = state_directory() / FILE
    try:
        connect(file).close()  # one that cannot be had is better known now than at every request
    except StorageError as error:
        return RunsConfig(), f"Its runs are not kept: {error}."
    return RunsConfig(path=str(file)), f"Its runs are kept in {file}."


def _model(asked: str | None) -> tuple[str, LocalModel]:
    """The model that is asked for; if none is, the best that is here. Raises `ConfigError`."""
    if asked is not None:
        return asked, _created(asked)
    try:
        return DEFAULT, _created(DEFAULT)
    except ConfigError as error:
        try:
            light = _created(LIGHT)
        except ConfigError:
            raise error from None
        sys.stderr.write(f"{error}\nGoing on with the light model, {LIGHT}.\n")
        return LIGHT, light


def _created(name: str) -> LocalModel:
    model = create_model(f"local/{name}")
    assert isinstance(model, LocalModel)
    return model
