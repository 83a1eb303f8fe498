"""The gateway as an ASGI application: routes, authentication, errors and the access log."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route, Router

from windlass.gateway.config import GatewayConfig
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.config.keys import presented_key
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    ClientGone,
    Exchange,
    Receive,
    Scope,
    Send,
    exchange_of,
    respond_json,
)
from windlass.gateway.http.errors import (
    INTERNAL,
    SHUTTING_DOWN,
    Refused,
    headers_too_large,
    problem_headers,
    problem_of,
)
from windlass.gateway.observe.access_log import AccessRecord
from windlass.gateway.observe.privacy import hide_content
from windlass.gateway.processes.member import Member
from windlass.gateway.routes import completions, conversations, gemini, messages, responses
from windlass.gateway.routes.chats import ChatRoutes
from windlass.gateway.routes.console import Console
from windlass.gateway.routes.info import InfoRoutes
from windlass.gateway.routes.mcp_route import METHODS as MCP_METHODS
from windlass.gateway.routes.mcp_route import PATH as MCP_PATH
from windlass.gateway.routes.mcp_route import McpRoute
from windlass.gateway.routes.openapi import show_openapi
from windlass.gateway.routes.runs import RunEvents, RunRoutes
from windlass.gateway.routes.sockets import ResponseSocket, deny, is_socket_path
from windlass.gateway.routes.tools import ToolRoutes
from windlass.gateway.routes.wire import Wire
from windlass.loop.executor import ToolExecutor
from windlass.model import Model
from windlass.wires.errors import Problem, error_body

log = logging.getLogger("windlass.gateway")

CLIENT_GONE = 499
"""The logged status of a request whose client disconnected before its answer."""
OTHER_WIRES = {
    "/v1/completions": "OpenAI's legacy completions API",
}
"""APIs of other services that this gateway does not serve, by path."""
WIRES = (completions.WIRE, responses.WIRE, conversations.WIRE, messages.WIRE, gemini.WIRE)
"""The protocols that every gateway serves."""
EXPOSED = (
    "X-Request-Id",
    "Request-Id",
    "X-Windlass-Run-Id",
    "X-Function-Calling-Mode",
    "Retry-After",
)


def create_app(
    config: GatewayConfig,
    *,
    models: Mapping[str, Model] | None = None,
    tools: Iterable[Any] | None = None,
    executor: ToolExecutor | None = None,
    wires: Iterable[Wire] = (),
    member: Member | None = None,
) -> "App":
    """Creates the gateway's ASGI app. `models`, `tools` and `executor` replace the config's.

    `wires` are protocols that the gateway serves besides its own. `member` is the place of this
    process among several. Raises `ConfigError` if the configuration cannot work.
    """
    gateway = Gateway(config, models=models, tools=tools, executor=executor, member=member)
    return App(gateway, wires)


class App:
    """The ASGI application of a gateway."""

    def __init__(self, gateway: Gateway, wires: Iterable[Wire] = ()) -> None:
        self.gateway = gateway
        self._wires = (*WIRES, *wires)
        by_wire = [(wire, wire.routes(gateway)) for wire in self._wires]
        wire_routes = [route for _, routes in by_wire for route in routes]
        self._direct = {route.path: route for route in wire_routes if "{" not in route.path}
        """The routes of nearly all requests, found without the router."""
        self._direct_wires = {
            route.path: wire
            for wire, routes in by_wire
            for route in routes
            if route.path in self._direct
        }
        self._endings = tuple(ending for wire in self._wires for ending in wire.endings)
        self._ended = [route for wire, routes in by_wire if wire.endings for route in routes]
        """The routes of paths with these endings, which are found before all others."""
        info = InfoRoutes(gateway)
        self._public = _public_routes(gateway, info)
        self.routes = [*wire_routes, *_guarded_routes(gateway, info), *self._public]
        self.mcp = McpRoute(gateway)
        # It is not in the OpenAPI document: its protocol is MCP.
        routes = [
            *self.routes,
            Route(MCP_PATH, self.mcp, methods=MCP_METHODS, include_in_schema=False),
        ]
        lifespan = _lifespan(gateway, self.mcp)
        self._router = Router(routes, redirect_slashes=False, lifespan=lifespan)
        self._answer = self._exchange
        origins = gateway.config.server.cors_origins
        if origins:
            self._answer = CORSMiddleware(
                self._exchange,
                allow_origins=origins,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=("*",),
                expose_headers=EXPOSED,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with hide_content(not self.gateway.config.server.log_content):
            if scope["type"] == "http":
                await self._answer(scope, receive, send)
            elif scope["type"] == "lifespan":
                await self._router(scope, receive, send)
            else:
                await self._socket(scope, receive, send)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["windlass.exchange"] = Exchange(scope)
        scope["app"] = self  # makes the router raise for unknown paths and methods
        request_id = exchange.id.encode()
        sent_ids = [(b"x-request-id", request_id)]
        if messages.VERSION_HEADER in exchange.headers:
            sent_ids.append((b"request-id", request_id))

        async def send_and_record(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [*message["headers"], *sent_ids]
            else:
                exchange.bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            route = self._found(scope)
            self._admit(scope, exchange, route)
            if route is not None:
                scope["route"] = route
                await route.handle(scope, receive, send_and_record)
            else:
                await self._router(scope, receive, send_and_record)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - the client receives an answer for every error
            await self._send_error(error, scope, send_and_record)
        finally:
            self._record(scope, exchange)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admits a WebSocket like a request, before it is accepted."""
        await receive()
        exchange = scope["windlass.exchange"] = Exchange(scope)
        scope["method"] = "GET"
        try:
            self._admit(scope, exchange)
            if not is_socket_path(scope):
                raise Refused(_not_found(scope["path"]))
            if self.gateway.refuses_runs:
                raise Refused(SHUTTING_DOWN)
        except Refused as error:
            exchange.status = error.problem.status
            self._record(scope, exchange)
            await deny(scope, send, error.problem)
            return
        await ResponseSocket(self.gateway, self._exchange, scope, receive, send).serve()

    def _found(self, scope: Scope) -> Route | None:
        """The route of a wire, found without the router; None if only the router can find it."""
        path = scope["path"]
        if not path.endswith(self._endings):
            return self._direct.get(path)
        for route in self._ended:
            match, matched = route.matches(scope)
            if match is Match.FULL:
                scope.update(matched)
                return route
        return None

    def _admit(self, scope: Scope, exchange: Exchange, route: Route | None = None) -> None:
        """Sets the exchange's key. Raises `Refused` if the request is not allowed."""
        limit = self.gateway.config.limits.max_header_bytes
        if sum(map(len, chain.from_iterable(scope["headers"]))) > limit:
            self.gateway.metrics.refused("headers_too_large")
            raise Refused(headers_too_large(limit))
        path = scope["path"]
        if route is None and self._is_public(scope):
            return
        if self.gateway.keys.required:
            wire = self._wire_of(scope)
            query = scope.get("query_string", b"") if wire and wire.key_in_query else b""
            exchange.key = self.gateway.keys.find(presented_key(exchange.headers, query))
            if exchange.key is None:
                self.gateway.metrics.refused("unauthorized")
                message = (
                    "Invalid or missing key: send `Authorization: Bearer KEY` or `X-API-Key: KEY`."
                )
                raise Refused(Problem(401, message, "invalid_api_key"))
        elif _is_foreign(exchange, self.gateway.config):
            self.gateway.metrics.refused("foreign_origin")
            message = "Web pages of other origins may not use a gateway without keys."
            raise Refused(Problem(403, message, "foreign_origin"))
        if self.gateway.refuses_runs and scope["method"] == "POST" and not _controls_run(path):
            raise Refused(SHUTTING_DOWN)

    def _is_public(self, scope: Scope) -> bool:
        """Whether the path needs no key. The routes match as the router does, also if mounted."""
        return any(route.matches(scope)[0] is not Match.NONE for route in self._public)

    async def _send_error(self, error: Exception, scope: Scope, send: Send) -> None:
        exchange = exchange_of(scope)
        if isinstance(error, HTTPException):
            problem = _http_problem(error, scope)
        else:
            problem = problem_of(error)
            if problem.code == INTERNAL:
                log.error("request failed", exc_info=error, extra={"request_id": exchange.id})
        if exchange.status:
            return  # the response has started: its status cannot change
        headers = problem_headers(problem)
        if isinstance(error, HTTPException) and error.headers:
            headers += [(n.lower().encode(), v.encode()) for n, v in error.headers.items()]
        if exchange.run_id:
            headers.append((b"x-windlass-run-id", exchange.run_id.encode()))
        body = self._error_body(scope, exchange)(problem)
        await respond_json(send, body, headers, problem.status)

    def _error_body(self, scope: Scope, exchange: Exchange) -> Callable[[Problem], bytes]:
        """Writes errors in the form of the path's wire, else of the client's, else OpenAI's."""
        wire = self._wire_of(scope)
        if wire is None:
            wire = next((each for each in self._wires if each.header in exchange.headers), None)
        return wire.error_body if wire else error_body

    def _wire_of(self, scope: Scope) -> Wire | None:
        path = _path_of(scope)
        if (known := self._direct_wires.get(path)) is not None:
            return known
        return next((wire for wire in self._wires if wire.serves(path)), None)

    def _record(self, scope: Scope, exchange: Exchange) -> None:
        seconds = time.perf_counter() - exchange.started
        route = scope.get("route")
        self.gateway.metrics.request_done(
            route=route.path if isinstance(route, Route) else "other",
            method=scope["method"],
            status=exchange.status,
            seconds=seconds,
            key=exchange.owner or None,
            model=exchange.model,
        )
        if self.gateway.access_log is not None:
            self.gateway.access_log.line(_access_record(scope, exchange, seconds))


def _guarded_routes(gateway: Gateway, info: InfoRoutes) -> list[Route]:
    runs, chats, tools = RunRoutes(gateway), ChatRoutes(gateway), ToolRoutes(gateway)
    return [
        Route("/v1/models", info.models),
        Route("/v1/models/{name:path}/cache", info.clear_cache, methods=["DELETE"]),
        Route("/v1/models/{name:path}", info.model),
        Route("/v1/runs", runs.start_or_list, methods=["GET", "POST"]),
        Route("/v1/runs/{run_id}", runs.show_or_delete, methods=["GET", "DELETE"]),
        Route("/v1/runs/{run_id}/events", RunEvents(gateway), methods=["GET", "HEAD"]),
        Route("/v1/runs/{run_id}/stop", runs.stop, methods=["POST"]),
        Route("/v1/runs/{run_id}/approve", runs.approve, methods=["POST"]),
        Route("/v1/runs/{run_id}/export", runs.export),
        Route("/v1/tools", tools.list),
        Route("/v1/tools/{name}", tools.show),
        Route("/v1/tools/{name}/call", tools.call, methods=["POST"]),
        Route("/v1/chats", chats.list),
        Route("/v1/chats/{chat_id}", chats.one, methods=["GET", "POST", "DELETE"]),
        Route("/metrics", info.metrics),
        Route("/openapi.json", show_openapi),
    ]


def _public_routes(gateway: Gateway, info: InfoRoutes) -> list[Route]:
    """The routes that need no key: health checks and the console's files."""
    return [
        Route("/health", info.ready),
        Route("/health/live", info.live),
        Route("/health/ready", info.ready),
        *(Console().routes() if gateway.config.server.console else ()),
    ]


def _lifespan(gateway: Gateway, mcp: McpRoute) -> Any:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None, None]:
        await gateway.open()
        tasks = [
            asyncio.create_task(gateway.registry.warm()),
            asyncio.create_task(gateway.maintain_log()),
        ]
        yield
        for task in tasks:
            task.cancel()
        await gateway.drain(0)
        await mcp.aclose()
        await gateway.aclose()

    return lifespan


def _controls_run(path: str) -> bool:
    """Whether the request controls an active run: these are served during a shutdown too."""
    return path.endswith(("/stop", "/approve"))


def _is_foreign(exchange: Exchange, config: GatewayConfig) -> bool:
    """Whether a web page of another origin sent this request.

    A foreign `Host` on a loopback address means that a page resolves its own name to this machine.
    """
    try:
        host = urlsplit(f"//{exchange.header(b'host')}").hostname or ""
        origin = exchange.header(b"origin")
        origin_host = urlsplit(origin).netloc
    except ValueError:
        return True
    if is_loopback(config.server.host) and host and not is_loopback(host):
        return True
    if not origin or "*" in config.server.cors_origins or origin in config.server.cors_origins:
        return False
    return origin_host != exchange.header(b"host")


def _path_of(scope: Scope) -> str:
    """The path below the place where the app is mounted."""
    return scope["path"].removeprefix(scope.get("root_path", ""))


def _http_problem(error: HTTPException, scope: Scope) -> Problem:
    path = _path_of(scope)
    match error.status_code:
        case 404:
            return _not_found(path)
        case 405:
            message = "Method not allowed. The header `Allow` lists the methods of this path."
            return Problem(405, message, "method_not_allowed")
        case status:
            return Problem(status, error.detail, "http_error")


def _not_found(path: str) -> Problem:
    for prefix, wire in OTHER_WIRES.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            message = f"This gateway does not serve {wire} ({prefix}): use /v1/chat/completions."
            return Problem(404, message, "wire_not_served")
    return Problem(404, "Not found. See /openapi.json for the endpoints.", "unknown_url")


def _access_record(scope: Scope, exchange: Exchange, seconds: float) -> AccessRecord:
    reply, client = exchange.reply, scope.get("client")
    return AccessRecord(
        method=scope["method"],
        path=scope["path"],
        status=exchange.status,
        seconds=seconds,
        key=exchange.owner or None,
        model=exchange.model,
        run_id=exchange.run_id,
        mode=exchange.mode,
        stop_reason=reply.stop_reason if reply else None,
        rounds=len(reply.rounds) if reply else None,
        tool_runs=len(reply.results) if reply else None,
        input_tokens=reply.usage.input_tokens if reply else None,
        output_tokens=reply.usage.output_tokens if reply else None,
        stream=exchange.stream,
        client=client[0] if client else None,
        request_id=exchange.id,
        bytes_out=exchange.bytes_out,
    )
