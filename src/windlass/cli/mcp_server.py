"""The MCP server of `windlass mcp`: executes calls, and listens over HTTP."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import Result
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.content import FunctionCall, FunctionResponse, new_call_id
from windlass.errors import ConfigError, ToolError
from windlass.events import RunEvent, ToolRunProgress
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.config.values import KeyConfig
from windlass.gateway.http.keys import KeyRing, presented_key
from windlass.loop.executor import ToolExecutor, ToolJob, outside_a_run, yes_to
from windlass.loop.policy import Policy
from windlass.tool import Tool
from windlass.toolsets.mcp.serving.server import ProgressRelay


class McpCallExecutor:
    """Executes calls of MCP clients, with the timeouts, retries and caches of the tools."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._executor = _McpExecutor()
        self._slots = asyncio.Semaphore(self._policy.max_parallel)
        self._count = 0

    async def __call__(
        self, tool: Tool, arguments: str, relay: ProgressRelay
    ) -> FunctionResponse | Result:
        """The result of the call. Raises the error of the tool."""
        self._count += 1
        call = FunctionCall(tool.name, arguments, new_call_id())

        def emit(event: RunEvent) -> None:
            if isinstance(event, ToolRunProgress):
                relay.report(event.progress, event.message, event.data)

        async with outside_a_run(
            f"mcp_{self._count}",
            {tool.name: tool},
            self._policy,
            approve=yes_to(call),  # the approval was requested over MCP before this
            emit=emit,
            slots=self._slots,
        ) as run:
            try:
                answer = await self._executor.execute(ToolJob(call, tool, 1, run))
            except _McpResult as returned:
                return returned.result
        return answer.response


class _McpResult(ToolError):
    """A tool returned an MCP result, which passes through the executor unchanged."""

    def __init__(self, result: Result) -> None:
        super().__init__("an MCP result")
        self.result = result


class _McpExecutor(ToolExecutor):
    async def _call(self, job: ToolJob, tool: Tool, arguments: dict[str, Any]) -> object:
        value = await super()._call(job, tool, arguments)
        if isinstance(value, Result):
            raise _McpResult(value)
        return value


MAX_BODY_BYTES = 64 * 2**20
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve_http(
    server: Server[Any], host: str, port: int, keys: Sequence[str], origins: Sequence[str]
) -> None:
    """Serves until a signal stops it. Raises `ConfigError` if it cannot listen on the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    app = guarded_app(server, host, keys, origins)
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on")
    with listener:
        port = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Windlass offers its tools at http://{shown}:{port}/mcp\n")
        sys.stderr.flush()
        uvicorn.Server(config).run(sockets=[listener])


def guarded_app(
    server: Server[Any], host: str, keys: Sequence[str], origins: Sequence[str]
) -> ASGIApp:
    """The server as an ASGI application that requires a key, if there are any.

    It refuses other web pages by their `Origin`. On loopback addresses it also checks `Host`,
    which stops DNS rebinding.
    """
    local = is_loopback(host)
    own = [f"http://{name}:*" for name in LOOPBACK] if local else []
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=local,
        allowed_hosts=[*LOOPBACK, *(f"{name}:*" for name in LOOPBACK)],
        allowed_origins=[*own, *origins],
    )
    app = server.streamable_http_app(
        transport_security=security, max_request_body_size=MAX_BODY_BYTES, host=host
    )
    ring = KeyRing([KeyConfig(name=f"key {at}", hash=key) for at, key in enumerate(keys)])
    return _Guard(app, ring, None if local else frozenset(origins))


class _Guard:
    def __init__(self, app: ASGIApp, ring: KeyRing, origins: frozenset[str] | None) -> None:
        self._app, self._ring, self._origins = app, ring, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # The HTTP parser leaves spaces around header values.
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            headers: dict[bytes, bytes] = dict(scope["headers"])
            origin = headers.get(b"origin", b"").decode("latin-1")
            if self._origins is not None and origin and origin not in self._origins:
                await _refuse(send, 403, b"This origin is not allowed.")
                return
            if self._ring.required and self._ring.find(presented_key(headers)) is None:
                await _refuse(send, 401, b"Missing or wrong key: send Authorization: Bearer KEY.")
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
