"""Tests a gateway that has a server tool with real clients that force a call of their own tool.

Prints a table: each method of each client, with models that treat `tool_choice` differently. Exits
with 1 if a client did not receive its call. `run.py NAME...` runs only these clients. `--verbose`
prints their error output.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fake_models import MODELS, SERVER_TOOL, upstream

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-clients" / "bin" / "python"
NODE = Path(sys.executable).parent / "node"
PYTHON_CLIENTS = (
    "openai",
    "langchain",
    "llama-index",
    "pydantic-ai",
    "openai-agents",
    "instructor",
    "smolagents",
)
NODE_CLIENTS = ("openai-node", "ai-sdk (openai-compatible)", "ai-sdk (openai)")
START_SECONDS = 60
CLIENT_SECONDS = 300
# More rounds than any client needs, but few, so that the limit is tested too.
MAX_ROUNDS = 3


def main() -> int:
    arguments = _arguments()
    failed = 0
    print("| client | method | " + " | ".join(MODELS) + " |")
    print("|---|---|" + "---|" * len(MODELS))
    with upstream() as fake, _gateway(fake.base_url) as url:
        for client in arguments.clients:
            results = _run(client, url, verbose=arguments.verbose)
            for method in dict.fromkeys(method for _, method in results):
                errors = [results.get((model, method), "no answer") for model in MODELS]
                failed += sum(map(bool, errors))
                cells = [f"failed: {_short(error)}" if error else "ok" for error in errors]
                print(f"| {client} | {method} | " + " | ".join(cells) + " |", flush=True)
            if not results:
                failed += 1
                print(f"| {client} | could not be started |" + " |" * len(MODELS), flush=True)
    print(f"\n{failed} failed" if failed else "\nall ok")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    every = [*PYTHON_CLIENTS, *NODE_CLIENTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="NAME", help=", ".join(every))
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.clients if name not in every]:
        parser.error(f"unknown client {unknown[0]!r}; known: {', '.join(every)}")
    arguments.clients = arguments.clients or every
    return arguments


def _run(client: str, url: str, *, verbose: bool) -> dict[tuple[str, str], str]:
    """Returns the error of each model and method; empty if there is none."""
    command = (
        [NODE, HERE / "node_clients.mjs"]
        if client in NODE_CLIENTS
        else [PYTHON, HERE / "python_clients.py"]
    )
    quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}
    try:
        done = subprocess.run(
            [*map(str, command), client, url, *MODELS],
            env={**os.environ, **quiet},
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(line["model"], line["method"]): line["error"] for line in lines}


def _short(error: str) -> str:
    """Returns the error as one line that fits into a cell of a table."""
    return " ".join(error.replace("|", "/").split())[:80]


@contextmanager
def _gateway(upstream_url: str) -> Iterator[str]:
    """Starts `windlass serve` in a separate process, and yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "windlass.toml")
        config.write_text(_config(upstream_url))
        command = [sys.executable, "-m", "windlass", "serve", "--config", str(config)]
        with (
            Path(folder, "log").open("w+") as log,
            subprocess.Popen(
                [*command, "--port", str(port)],
                env={**os.environ, "CLIENTS_KEY": "none"},
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                _wait_until_ready(process, f"http://127.0.0.1:{port}/health/ready")
                yield f"http://127.0.0.1:{port}/v1"
            finally:
                process.terminate()
                process.wait(START_SECONDS)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    give_up = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the gateway did not start")


def _config(upstream_url: str) -> str:
    tools = f'[tools]\nmodules = ["{HERE / "tools.py"}"]\n'
    models = [
        f'[models.{name}]\ntarget = "openai/{name}"\nbase_url = "{upstream_url}"\n'
        f'api_key_env = "CLIENTS_KEY"\ntools = ["{SERVER_TOOL}"]\nmax_rounds = {MAX_ROUNDS}\n'
        for name in MODELS
    ]
    return "\n".join([tools, *models])


if __name__ == "__main__":
    sys.exit(main())
