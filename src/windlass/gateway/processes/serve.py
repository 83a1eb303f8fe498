"""Serves a gateway with several processes."""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from windlass.errors import ConfigError
from windlass.gateway.config import GatewayConfig
from windlass.gateway.http.listener import address_of, bound_socket
from windlass.gateway.processes.member import Assignment
from windlass.gateway.processes.supervisor import Supervisor, python_command
from windlass.threads import available_cores


def serve_processes(
    config: GatewayConfig, arguments: Sequence[str], started: Callable[[str], None]
) -> int:
    """Serves until a signal, and returns the exit code.

    Each process runs `windlass` with the `arguments`. Calls `started` with the address when all of
    them accept requests. Raises `ConfigError` if the address is in use.
    """
    if sys.platform == "win32":
        raise ConfigError("--processes: Windows supports one process only")
    server = config.server
    count = available_cores() if server.processes == "auto" else server.processes
    with (
        bound_socket(server.host, server.port) as listener,
        tempfile.TemporaryDirectory(prefix="windlass-") as folder,
    ):
        address = address_of(listener)

        async def serve() -> int:
            async with AsyncExitStack() as stack:
                assigned = await _assigned(config, Path(folder), stack)
                supervisor = Supervisor(python_command(arguments), count, listener, assigned)
                return await supervisor.run(Path(folder), lambda: started(address))

        return asyncio.run(serve())


async def _assigned(config: GatewayConfig, folder: Path, stack: AsyncExitStack) -> Assignment:
    """What all processes share: a file of runs and a NATS server, unless they are configured."""
    runs, workers = config.runs, config.workers
    file = None if runs.path or runs.nats else str(folder / "runs.db")
    nats: str | None = None
    if workers is not None and not workers.nats:
        try:
            from windlass.messaging.embedded import NatsServer
        except ModuleNotFoundError as error:
            raise ConfigError(f"workers need {error.name}: pip install 'windlass[fleet]'") from None
        nats = (await stack.enter_async_context(NatsServer(port=workers.port))).url
    return Assignment(number=0, listener=0, control=0, runs=file, workers=nats)
