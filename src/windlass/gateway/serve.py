"""The gateway as a process: uvicorn, and an end that loses nothing it need not lose."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import cast

import uvicorn

from windlass.errors import ConfigError
from windlass.gateway.app import App
from windlass.gateway.config import GatewayConfig
from windlass.gateway.http.protocol import BoundedProtocol, Connections

__all__ = ["GatewayServer", "address_of", "serve"]

log = logging.getLogger("windlass.gateway")

COLLECTOR = (10_000, 5, 5)
"""Thresholds of the garbage collector.

A request leaves no reference cycles, so collections are rare. A tool of the operator's may leave
some: what survives its request is found after 250,000 new objects at the latest.
"""
CONNECTIONS_PER_ADDRESS = 512
"""More than `max_running` and `max_queued` together, so that they decide first."""
AFTER_DRAINING = 5
"""Seconds for the last words to reach clients, before their connections are cut."""


class GatewayServer(uvicorn.Server):
    """Listens; before it goes it stops accepting, waits for runs, and calls off the rest."""

    def __init__(self, app: App) -> None:
        server, limits = app.gateway.config.server, app.gateway.config.limits
        super().__init__(
            uvicorn.Config(
                app,
                host=server.host,
                port=server.port,
                loop="uvloop",
                http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, _connections(app))),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                h11_max_incomplete_event_size=limits.max_header_bytes,
                timeout_keep_alive=cast("int", server.keep_alive_timeout),
                timeout_graceful_shutdown=int(server.shutdown_timeout) + AFTER_DRAINING,
            )
        )
        self.gateway = app.gateway
        self.on_listening: Callable[[], None] = lambda: None
        """Called when it accepts requests."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the gateway before uvicorn does: uvicorn would log a failure with its traceback."""
        try:
            await self.gateway.open()
        except BaseException:
            await self.gateway.aclose()
            raise
        await super().startup(sockets)
        self.on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A termination that ends in order is a success: uvicorn would be killed by it at last."""
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        seconds = self.gateway.config.server.shutdown_timeout
        draining = asyncio.create_task(self.gateway.drain(seconds))
        try:
            await super().shutdown(sockets)
        finally:
            await draining


def serve(app: App, started: Callable[[str], None]) -> None:
    """Serves until a signal ends it; calls `started` with its address when it listens.

    Raises `ConfigError` if the address, or a NATS server, cannot be had.
    """
    server = GatewayServer(app)
    listener = _listener(server.config)
    # What is loaded by now stays: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)
    with listener:
        address = address_of(listener)
        server.on_listening = lambda: started(address)
        server.run(sockets=[listener])


def _connections(app: App) -> Connections:
    config = app.gateway.config
    return Connections(
        header_timeout=config.limits.header_timeout,
        per_address=_per_address(config),
        refused=app.gateway.metrics.refused,
    )


def _per_address(config: GatewayConfig) -> int | None:
    """How many connections one address may have open.

    Without keys any local program can connect, so one of them must not take all descriptors. With
    keys the address is often that of a proxy in front, and is not bounded unless it is configured.
    """
    configured = config.limits.max_connections_per_address
    if configured is not None or config.keys:
        return configured
    return max(1, min(CONNECTIONS_PER_ADDRESS, _descriptors() // 2))


def _descriptors() -> int:
    """How many files and sockets this process may have open."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return 2 * CONNECTIONS_PER_ADDRESS
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * CONNECTIONS_PER_ADDRESS if limit == resource.RLIM_INFINITY else limit


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listener(config: uvicorn.Config) -> socket.socket:
    """The socket, bound before anything is printed: a port that is taken is said in words."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        # `create_server` says the address once more.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"cannot listen on {config.host}:{config.port}: {reason}") from None
