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

from windlass.gateway.app import App
from windlass.gateway.config import GatewayConfig
from windlass.gateway.http.listener import address_of, bound_socket
from windlass.gateway.http.protocol import BoundedProtocol, Connections, socket_protocol

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
        connections = _connections(app)
        super().__init__(
            uvicorn.Config(
                app,
                host=server.host,
                port=server.port,
                loop="auto",  # uvloop where it is installed; Windows has none
                http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, connections)),
                ws=cast("type[asyncio.Protocol]", socket_protocol),
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
        self._connections = connections
        self.on_listening: Callable[[], None] = lambda: None
        """Called when the server accepts requests."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the gateway here, because uvicorn would log a failure with its traceback."""
        member = self.gateway.member
        if member is not None:  # it may exit, or replace this process, before that
            member.on_drain, member.on_lost = self.hand_over, self._exit
        try:
            await self.gateway.open()
        except BaseException:
            await self.gateway.aclose()
            raise
        await super().startup(sockets)
        if member is not None:
            member.ready()
        self.on_listening()

    def hand_over(self) -> None:
        """Stops accepting connections, finishes the requests of the open ones, and exits."""
        self.gateway.handing_over = self._connections.handing_over = True
        self.config.timeout_graceful_shutdown = None
        self._exit()

    def _exit(self) -> None:
        self.should_exit = True

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
    member, config = app.gateway.member, app.gateway.config.server
    listener = bound_socket(config.host, config.port) if member is None else member.listener
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
    """How many connections one address may have open; None means no limit.

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
