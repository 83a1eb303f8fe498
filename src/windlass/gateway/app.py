"""The gateway as an ASGI application: routes, authentication, errors and the access log."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route, Router

from windlass.gateway.config import GatewayConfig
from windlass.gateway.config.checks import is_loopback
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
from windlass.gateway.http.keys import presented_key
from windlass.gateway.observe.access_log import AccessRecord
from windlass.gateway.observe.privacy import hide_content
from windlass.gateway.routes.chats import ChatRoutes
from windlass.gateway.routes.completions import ChatCompletions
from windlass.gateway.routes.console import Console
from windlass.gateway.routes.info import InfoRoutes
from windlass.gateway.routes.runs import RunEvents, RunRoutes
from windlass.gateway.routes.tools import ToolRoutes
from windlass.loop.executor import ToolExecutor
from windlass.model import Model
from windlass.wires.chat.write_events import error_body
from windlass.wires.errors import Problem

log = logging.getLogger("windlass.gateway")

CLIENT_GONE = 499
"""The logged status of a request whose client disconnected before its answer."""
OTHER_WIRES = {
    "/v1/responses": "OpenAI's Responses API",
    "/v1/messages": "Anthropic's Messages API",
    "/v1/completions": "OpenAI's legacy completions API",
    "/v1beta": "Gemini's generateContent API",
}
"""APIs of other services that this gateway does not serve, by path."""
EXPOSED = ("X-Request-Id", "X-Windlass-Run-Id", "X-Function-Calling-Mode", "Retry-After")


def create_app(
    config: GatewayConfig,
    *,
    models: Mapping[str, Model] | None = None,
    tools: Iterable[Any] | None = None,
    executor: ToolExecutor | None = None,
) -> "App":
    """Creates the gateway's ASGI app. `models`, `tools` and `executor` replace the config's.

    Raises `ConfigError` if the configuration cannot work.
    """
    return App(Gateway(config, models=models, tools=tools, executor=executor))


class App:
    """The ASGI application of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._chat = Route("/v1/chat/completions", ChatCompletions(gateway), methods=["POST"])
        info = InfoRoutes(gateway)
        self._public = _public_routes(gateway, info)
        self.routes = [self._chat, *_guarded_routes(gateway, info), *self._public]
        self._router = Router(self.routes, redirect_slashes=False, lifespan=_lifespan(gateway))
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
                await send({"type": "websocket.close", "code": 1008})

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["windlass.exchange"] = Exchange(scope)
        scope["app"] = self  # makes the router raise for unknown paths and methods
        request_id = (b"x-request-id", exchange.id.encode())

        async def send_and_record(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [*message["headers"], request_id]
            else:
                exchange.bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            self._admit(scope, exchange)
            if scope["path"] == self._chat.path:  # nearly all requests: skip the router
                scope["route"] = self._chat
                await self._chat.handle(scope, receive, send_and_record)
            else:
                await self._router(scope, receive, send_and_record)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - the client receives an answer for every error
            await self._send_error(error, scope, send_and_record)
        finally:
            self._record(scope, exchange)

    def _admit(self, scope: Scope, exchange: Exchange) -> None:
        """Sets the exchange's key. Raises `Refused` if the request is not allowed."""
        limit = self.gateway.config.limits.max_header_bytes
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limit:
            self.gateway.metrics.refused("headers_too_large")
            raise Refused(headers_too_large(limit))
        path = scope["path"]
        if path != self._chat.path and self._is_public(scope):
            return
        if self.gateway.keys.required:
            exchange.key = self.gateway.keys.find(presented_key(exchange.headers))
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
        if self.gateway.draining and scope["method"] == "POST" and not _controls_run(path):
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
        await respond_json(send, error_body(problem), headers, problem.status)

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
        Route("/v1/chats/{chat_id}", chats.show_or_delete, methods=["GET", "DELETE"]),
        Route("/metrics", info.metrics),
        Route("/openapi.json", info.openapi),
    ]


def _public_routes(gateway: Gateway, info: InfoRoutes) -> list[Route]:
    """The routes that need no key: health checks and the console's files."""
    return [
        Route("/health", info.ready),
        Route("/health/live", info.live),
        Route("/health/ready", info.ready),
        *(Console().routes() if gateway.config.server.console else ()),
    ]


def _lifespan(gateway: Gateway) -> Any:
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
        await gateway.aclose()

    return lifespan


def _controls_run(path: str) -> bool:
    """Whether the request controls an active run: these are served during a shutdown too."""
    return path.endswith(("/stop", "/approve"))


def _is_foreign(exchange: Exchange, config: GatewayConfig) -> bool:
    """Whether a web page of another origin sends this request.

    A foreign `Host` on a loopback address is a page that resolves its own name to this machine.
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


def _http_problem(error: HTTPException, scope: Scope) -> Problem:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
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
