"""The gateway as a process: uvicorn with limits and a graceful shutdown."""

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
from windlass.gateway.http.protocol import BoundedProtocol, Connections, CountedSocket

log = logging.getLogger("windlass.gateway")

GC_THRESHOLDS = (10_000, 5, 5)
"""Thresholds of the garbage collector.

A request creates no reference cycles, so collections are rare. The tools of an operator may create
cycles: those that outlive their request are collected after 250,000 new objects at the latest.
"""
CONNECTIONS_PER_ADDRESS = 512
"""More than the default `max_running` and `max_queued` together: those limits apply first."""
DRAIN_GRACE = 5
"""Seconds after draining in which clients can read their answers before connections close."""


class GatewayServer(uvicorn.Server):
    """Serves the app. A shutdown stops accepting, waits for active runs and cancels the rest."""

    def __init__(self, app: App) -> None:
        server, limits = app.gateway.config.server, app.gateway.config.limits
        super().__init__(
            uvicorn.Config(
                app,
                host=server.host,
                port=server.port,
                loop="uvloop",
                http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, _connections(app))),
                ws=CountedSocket,
                ws_max_size=limits.max_body_bytes,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                h11_max_incomplete_event_size=limits.max_header_bytes,
                timeout_keep_alive=cast("int", server.keep_alive_timeout),
                timeout_graceful_shutdown=int(server.shutdown_timeout) + DRAIN_GRACE,
            )
        )
        self.gateway = app.gateway
        self.on_listening: Callable[[], None] = lambda: None
        """Called when the server accepts requests."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the gateway here, because uvicorn would log a failure with its traceback."""
        try:
            await self.gateway.open()
        except BaseException:
            await self.gateway.aclose()
            raise
        await super().startup(sockets)
        self.on_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Makes the process exit with 0 after SIGTERM; uvicorn would raise the signal again."""
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
    """Serves until a signal; calls `started` with its address when the server listens.

    Raises `ConfigError` if the address is in use or the NATS server cannot be reached.
    """
    server = GatewayServer(app)
    listener = _listener(server.config)
    # Loaded modules stay for the life of the process: the collector can skip them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
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
    """How many connections one address may have open; None is no limit.

    Without keys any local program can connect, and must not use up all file descriptors. With keys
    the address is often that of a reverse proxy, so there is no limit unless one is configured.
    """
    configured = config.limits.max_connections_per_address
    if configured is not None or config.keys:
        return configured
    return max(1, min(CONNECTIONS_PER_ADDRESS, _max_descriptors() // 2))


def _max_descriptors() -> int:
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
    """Binds the socket. Raises `ConfigError` if the port is in use."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=2048)
    except OSError as error:
        # `create_server` adds the address to its message.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"cannot listen on {config.host}:{config.port}: {reason}") from None
