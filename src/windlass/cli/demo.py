"""`windlass demo`: the gateway with a local model and a few tools, without a key or a network."""

import argparse
import os
import sys
import threading
import time
from typing import TextIO

from windlass.cli.arguments import port_number
from windlass.cli.model_selection import STAGES
from windlass.errors import ConfigError, StorageError
from windlass.gateway.config import GatewayConfig, ModelConfig, RunsConfig, ServerConfig
from windlass.gateway.observe.access_log import configure_logging
from windlass.models import create_model
from windlass.models.local.model import LocalModel
from windlass.models.local.weights import WeightsProgress
from windlass.runs.sqlite.database import connect
from windlass.settings import state_directory

DESCRIPTION = """\
Serves a small language model on this machine, with tools for the weather, the time, arithmetic,
units and a shopping list: in the console in your browser, and over OpenAI's API. It needs no key
and no network. Runs are stored and are available again after a restart."""

EPILOG = """\
examples:
  windlass demo
  windlass demo --model smol --port 8081      # the small model: faster, but less capable
  MODEL=smol windlass demo"""

EXAMPLES = (
    "What is the weather in Rome?",
    "How warm is it in Oslo today, in Fahrenheit?",
    "What is 15% of 80?",
    "Put oat milk on my shopping list",
)
"""Prompts that work with this model and these tools: one call, two steps, arithmetic, approval."""

SYSTEM = """\
You are Windy, the assistant of the Windlass demo: a small language model that runs on the user's \
own computer, without the internet. With your functions you can look up the weather (simulated) \
and the time, calculate, convert units, and add to the user's shopping list. You know no news and \
no private data, and you can be wrong: if you do not know something, say so. Answer in one or two \
short sentences."""

BANNER = """
Open {address} in a browser.

Windlass listens on {address} with the model {model} and the tools {tools}.
{storage}

Ask it something in a terminal:
  curl {address}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "{prompt}"}}]}}'

Or with the openai SDK:
  OpenAI(base_url="{address}/v1", api_key="none")

Ctrl-C stops it.
"""
READY = "Ready after {seconds} s. The first answer takes a few seconds.\n"
STOPPED = "\nWindlass has stopped. {storage}\n"
PROMPT = EXAMPLES[0]
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
    parser.add_argument(
        "--log-level",
        default="WARNING",
        metavar="LEVEL",
        help="INFO logs every request; default: WARNING",
    )


def run(options: argparse.Namespace) -> int:
    configure_logging(options.log_level)
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
        models={
            name: ModelConfig(
                name=name, target=model.name, tools=names, system=SYSTEM, examples=EXAMPLES
            )
        },
        runs=runs,
    )
    app = create_app(config, models={name: model}, tools=TOOLS)
    # The page opens at once; the gateway loads the model and reports here what it does.
    lines = ProgressLines(sys.stderr)
    model.on_progress, app.gateway.registry.on_ready = lines, lines.ready

    def listening(address: str) -> None:
        values = {"model": name, "tools": ", ".join(names), "storage": storage, "prompt": PROMPT}
        sys.stderr.write(BANNER.format(address=address, **values))
        sys.stderr.flush()

    try:
        serve(app, listening)
    except KeyboardInterrupt:
        sys.stderr.write(STOPPED.format(storage=storage))
        raise
    sys.stderr.write(STOPPED.format(storage=storage))
    return 0


_SHORT_STAGE = 2.0
"""Seconds of a stage before it reports more than its start."""
_INTERVAL = 2.0
"""Seconds between two lines of one stage."""


class ProgressLines:
    """Writes a line when a stage begins and at intervals, with the time that is left.

    They are the same lines on a terminal and in a file.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._stage_began = self._written = time.monotonic()
        self._stage, self._first = "", 0

    def __call__(self, progress: WeightsProgress) -> None:
        """Can be called in any thread."""
        with self._lock:
            self._stream.write(self._line(progress))
            self._stream.flush()

    def ready(self, _: str, seconds: float) -> None:
        with self._lock:
            self._stream.write(READY.format(seconds=round(seconds)))
            self._stream.flush()

    def _line(self, progress: WeightsProgress) -> str:
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._first = progress.stage, progress.done
            self._stage_began = self._written = now
            return f"{STAGES[progress.stage]}...\n"
        done, elapsed = progress.done - self._first, now - self._stage_began
        ended = progress.done == progress.total
        if done <= 0 or ended or elapsed < _SHORT_STAGE or now - self._written < _INTERVAL:
            return ""
        self._written = now
        share = progress.done * 100 // progress.total
        left = max(1, round(elapsed * (progress.total - progress.done) / done))
        return f"{STAGES[progress.stage]}: {share} %, about {left} s left\n"


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
