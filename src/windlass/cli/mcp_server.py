"""The MCP server of `windlass mcp`: runs calls, and listens over HTTP."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.content import FunctionCall, FunctionResponse, new_call_id
from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent, RunEvent, ToolRunProgress
from windlass.gateway.app import App
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.config.keys import KeyRing, presented_key
from windlass.gateway.config.values import KeyConfig
from windlass.gateway.gateway import Gateway
from windlass.gateway.routes.mcp import bind_session
from windlass.gateway.routes.mcp_route import PATH
from windlass.loop.approval import Approval
from windlass.loop.executor import ToolExecutor, ToolJob, outside_a_run
from windlass.loop.policy import Policy
from windlass.model import ModelRequest
from windlass.tool import Tool
from windlass.toolsets.mcp.serving.calls import Request, ServedCall, answer_of, question_of
from windlass.toolsets.mcp.serving.results import RESULT_URI, result_resource
from windlass.toolsets.mcp.serving.server import ToolServer


class LocalTools:
    """The tools of `windlass mcp`, with the timeouts, retries and caches of the tools."""

    def __init__(self, tools: Callable[[], list[Tool]], policy: Policy | None = None) -> None:
        """`tools` returns the tools at the time of each request."""
        self._tools = tools
        self._policy = policy or Policy()
        self._executor = ToolExecutor()
        self._slots = asyncio.Semaphore(self._policy.max_parallel)
        self._results: dict[str, FunctionResponse] = {}
        """The latest results by their address."""
        self._count = 0

    async def tools(self, context: Request) -> list[Tool]:
        return self._tools()

    def version(self) -> object:
        return [(tool.name, id(tool)) for tool in self._tools()]

    async def run(
        self, tool: Tool, call: ServedCall
    ) -> FunctionResponse | types.InputRequiredResult:
        """Runs a call. Raises the error of the tool."""
        self._count += 1
        run_id = f"mcp_{self._count}"
        asked = FunctionCall(tool.name, call.arguments, new_call_id())
        approved = False
        if tool.options.approve and call.is_modern:
            decided = _decided(asked, call)
            if isinstance(decided, types.InputRequiredResult):
                return decided
            approved = decided

        async def approve(question: FunctionCall) -> Approval:
            if question.id == asked.id and approved:
                return Approval(True)
            answer = await call.ask(question)
            return Approval(answer.approved, answer.arguments)

        def emit(event: RunEvent) -> None:
            if isinstance(event, ToolRunProgress):
                call.report(event.progress, event.message, event.data)

        async with outside_a_run(
            run_id,
            {tool.name: tool},
            self._policy,
            approve=approve,
            emit=emit,
            slots=self._slots,
        ) as run:
            answer = await self._executor.execute(ToolJob(asked, tool, 1, run))
        self._keep(run_id, asked, answer.response)
        return answer.response

    async def resources(self, context: Request) -> list[types.Resource]:
        return [
            result_resource(uri, response.name) for uri, response in reversed(self._results.items())
        ]

    async def read(self, context: Request, uri: str) -> FunctionResponse | None:
        return self._results.get(uri)

    def _keep(self, run_id: str, call: FunctionCall, response: FunctionResponse) -> None:
        if response.error is None and len(response.text) <= MAX_KEPT_CHARS:
            uri = RESULT_URI.format(run_id=run_id, call_id=call.id)
            self._results[uri] = response
            if len(self._results) > MAX_KEPT_RESULTS:
                del self._results[next(iter(self._results))]


def _decided(asked: FunctionCall, call: ServedCall) -> bool | types.InputRequiredResult:
    """Whether the user of a client without a handshake approves; or the question for them."""
    given = (call.params.input_responses or {}).get(ANSWER)
    if given is None and call.can_ask:
        request = types.ElicitRequest(params=question_of(asked))
        return types.InputRequiredResult(input_requests={ANSWER: request})
    return isinstance(given, types.ElicitResult) and answer_of(asked, given).approved


ANSWER = "approval"
MAX_KEPT_RESULTS = 100
MAX_KEPT_CHARS = 1_000_000


class UnusedModel:
    """Stands for a model of the configuration, whose tools are served without it."""

    def __init__(self, name: str) -> None:
        self.name = f"unused/{name}"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        raise ModelError("windlass mcp serves tools, not models")

    async def aclose(self) -> None:
        """Does nothing: there are no connections."""


MAX_BODY_BYTES = 64 * 2**20
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def gateway_server(gateway: Gateway, name: str) -> ToolServer:
    """The MCP server of a folder with a `windlass.toml`: the same as the gateway's `/mcp`."""
    from windlass.gateway.routes.mcp import tool_server

    return tool_server(gateway, name=name, every=True)


def serve_gateway(app: App, server: ToolServer, host: str, port: int) -> None:
    """Serves `/mcp` of a gateway until a signal stops it. Raises `ConfigError`."""
    app.mcp.server = server
    _serve(_OnlyMcp(app), host, port)


def serve_http(
    server: Server[Any], host: str, port: int, keys: Sequence[KeyConfig], origins: Sequence[str]
) -> None:
    """Serves until a signal stops it. Raises `ConfigError` if it cannot listen on the address."""
    _serve(guarded_app(server, host, keys, origins), host, port)


def _serve(app: ASGIApp, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    with listener:
        port = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Windlass offers its tools at http://{shown}:{port}/mcp\n")
        sys.stderr.flush()
        uvicorn.Server(config).run(sockets=[listener])


SHUTDOWN_SECONDS = 5


class _OnlyMcp:
    """A gateway of which only `/mcp` is served."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != PATH:
            await _refuse(send, 404, b"Only /mcp is served here.")
            return
        await self._app(scope, receive, send)


def guarded_app(
    server: Server[Any], host: str, keys: Sequence[KeyConfig], origins: Sequence[str]
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
    return _Guard(app, KeyRing(keys), None if local else frozenset(origins))


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
            if self._ring.required:
                key = self._ring.find(presented_key(headers))
                if key is None:
                    text = b"Missing or wrong key: send Authorization: Bearer KEY."
                    await _refuse(send, 401, text)
                    return
                bind_session(scope, key.name)
        await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
