"""Starts a fleet: gateways with different setups, a worker, a NATS server and an upstream."""

import asyncio
import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from gateway_servers import KEY, Place, Server, accepts_connections, free_port, running_process
from processes import HERE, python
from remote_methods import start_server

from windlass.messaging.embedded import NatsServer

SESSION, WAITING_SESSION = "bench", "held"
"""The session of a worker that answers, and the session of a worker that never answers."""
MODELS = {"tool": ("tool", SESSION), "live": ("live", SESSION), "held": ("tool", WAITING_SESSION)}
"""By model: the upstream's script, and the session of the tools."""


class Setup(NamedTuple):
    title: str
    remote: bool = True
    """Whether a worker executes the tool. Otherwise the gateway executes it."""
    runs: str = ""
    """The setting that stores runs: `path`, `nats`, or none."""
    gateways: int = 1


SETUPS = {
    "own": Setup("1 gateway, a server tool", remote=False),
    "remote": Setup("1 gateway, a worker's tool"),
    "sqlite": Setup("  and runs in SQLite", runs="path"),
    "nats": Setup("  and runs in JetStream", runs="nats"),
    "two": Setup("2 gateways, the same", runs="nats", gateways=2),
}


class Fleet(NamedTuple):
    gateways: dict[str, list[Server]]
    """By setup."""
    worker: int
    nats: int


@contextmanager
def nats_server(store: Path | None = None, extra: Iterable[str] = ()) -> Iterator[NatsServer]:
    with asyncio.Runner() as runner:
        server = NatsServer(store=store, extra=tuple(extra))
        runner.run(server.__aenter__())
        try:
            yield server
        finally:
            runner.run(server.aclose())


@contextmanager
def fleet(setups: dict[str, Setup]) -> Iterator[Fleet]:
    with nats_server() as server, ExitStack() as stack:
        upstream = stack.enter_context(python("gateway_upstream.py"))
        assert upstream.stdout is not None
        root = f"http://127.0.0.1:{int(upstream.stdout.readline())}"
        worker = start_server(stack, "serve", server.url, SESSION)
        start_server(stack, "hold", server.url, WAITING_SESSION)
        gateways = {
            name: [
                stack.enter_context(gateway(setup, root, server.url)) for _ in range(setup.gateways)
            ]
            for name, setup in setups.items()
        }
        yield Fleet(gateways, worker, server.process_id)


@contextmanager
def gateway(setup: Setup, upstream: str, nats: str) -> Iterator[Server]:
    with TemporaryDirectory() as folder:
        place = Place(Path(folder), free_port(), upstream)
        config = place.file("windlass.toml", configuration(setup, upstream, nats))
        address = ["--config", config, "--port", str(place.port)]
        with running_process([sys.executable, "-m", "windlass", "serve", *address], place) as child:
            if not accepts_connections(child, place.port):
                raise SystemExit((place.folder / "output").read_text()[-1000:])
            yield Server(place.port, child.pid)


def configuration(setup: Setup, upstream: str, nats: str) -> str:
    models = [
        f'[models.{name}]\ntarget = "openai/bench-{script}"\nbase_url = "{upstream}/v1"\n'
        'api_key_env = "BENCH_KEY"\nmode = "native"\n'
        + (f'sessions = ["{session}"]\n' if setup.remote else 'tools = ["get_weather"]\n')
        for name, (script, session) in MODELS.items()
    ]
    key_hash = hashlib.sha256(KEY.encode()).hexdigest()
    sections = [
        f'[tools]\nmodules = ["{HERE / "gateway_tools.py"}"]\n',
        *models,
        f'[[keys]]\nname = "bench"\nhash = "sha256:{key_hash}"\n',
        "[limits]\nmax_running = 10000\n[server]\nshutdown_timeout = 0.1\n",
    ]
    if setup.remote:
        sections.append(f'[workers]\nnats = ["{nats}"]\n')
    if setup.runs:
        storage = f'nats = ["{nats}"]' if setup.runs == "nats" else 'path = "runs.db"'
        sections.append(f"[runs]\n{storage}\n")
    return "\n".join(sections)
