"""The gateway as an ASGI application: its routes, and what goes around every exchange."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from windlass.gateway.chat import ChatCompletions
from windlass.gateway.chat_routes import ChatRoutes
from windlass.gateway.config import GatewayConfig
from windlass.gateway.config.checks import is_loopback
from windlass.gateway.exchange import (
    ClientGone,
    Exchange,
    Receive,
    Scope,
    Send,
    exchange_of,
    json_response,
    respond_json,
)
from windlass.gateway.gateway import SHUTTING_DOWN, Gateway
from windlass.gateway.keys import presented_key
from windlass.gateway.observe.access_log import AccessRecord
from windlass.gateway.openapi import openapi_document
from windlass.gateway.problems import INTERNAL, Problem, Refused, headers_too_large, problem_of
from windlass.gateway.run_routes import RunEvents, RunRoutes
from windlass.jsontext import encode_json
from windlass.model import Model

__all__ = ["App", "create_app"]

log = logging.getLogger("windlass.gateway")

CLIENT_GONE = 499
"""What the log says of a client that did not wait for its answer."""
EXPOSED = ("X-Request-Id", "X-Windlass-Run-Id", "X-Function-Calling-Mode", "Retry-After")
OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready"})


def create_app(
    config: GatewayConfig,
    *,
    models: Mapping[str, Model] | None = None,
    tools: Iterable[Any] | None = None,
) -> "App":
    """The gateway, ready to be served. `models` and `tools` stand in for those of the config.

    Raises `ConfigError` for what cannot work.
    """
    return App(Gateway(config, models=models, tools=tools))


class App:
    """What an ASGI server calls."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._chat = Route("/v1/chat/completions", ChatCompletions(gateway), methods=["POST"])
        routes = [self._chat, *_routes(gateway)]
        self._router = Router(routes, redirect_slashes=False, lifespan=_lifespan(gateway))
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
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._router(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = scope["windlass.exchange"] = Exchange(scope)
        scope["app"] = self  # so that the router raises what it does not find
        request_id = (b"x-request-id", exchange.id.encode())

        async def told(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [*message["headers"], request_id]
            else:
                exchange.bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            self._admit(scope, exchange)
            if scope["path"] == self._chat.path:  # where nearly all come to
                scope["route"] = self._chat
                await self._chat.handle(scope, receive, told)
            else:
                await self._router(scope, receive, told)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - whatever happens, the client is told
            await self._failed(error, exchange, told)
        finally:
            self._note(scope, exchange)

    def _admit(self, scope: Scope, exchange: Exchange) -> None:
        """Raises `Refused` for who may not come in."""
        limit = self.gateway.config.limits.max_header_bytes
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limit:
            self.gateway.metrics.refused("headers_too_large")
            raise Refused(headers_too_large(limit))
        if scope["path"] in OPEN_PATHS:
            return
        if self.gateway.keys.required:
            exchange.key = self.gateway.keys.find(presented_key(exchange.headers))
            if exchange.key is None:
                self.gateway.metrics.refused("unauthorized")
                message = "A key is needed: send `Authorization: Bearer KEY` or `X-API-Key: KEY`."
                raise Refused(Problem(401, message, "invalid_api_key"))
        elif _is_strange(exchange, self.gateway.config):
            self.gateway.metrics.refused("foreign_origin")
            message = "Other web pages may not use a gateway that asks for no key."
            raise Refused(Problem(403, message, "foreign_origin"))
        if self.gateway.draining and scope["method"] == "POST" and not _is_steering(scope["path"]):
            raise Refused(SHUTTING_DOWN)

    async def _failed(self, error: Exception, exchange: Exchange, send: Send) -> None:
        if isinstance(error, HTTPException):
            problem = _http_problem(error)
        else:
            problem = problem_of(error)
            if problem.code == INTERNAL:
                log.error("A request failed", exc_info=error, extra={"request_id": exchange.id})
        if exchange.status:
            return  # its answer has begun: nothing more can be said
        headers = problem.headers()
        if isinstance(error, HTTPException) and error.headers:
            headers += [(n.lower().encode(), v.encode()) for n, v in error.headers.items()]
        if exchange.run_id:
            headers.append((b"x-windlass-run-id", exchange.run_id.encode()))
        await respond_json(send, problem.to_json(), headers, problem.status)

    def _note(self, scope: Scope, exchange: Exchange) -> None:
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
            self.gateway.access_log.line(_record(scope, exchange, seconds))


def _routes(gateway: Gateway) -> list[Route]:
    runs, chats, pages = RunRoutes(gateway), ChatRoutes(gateway), _Pages(gateway)
    return [
        Route("/v1/models", pages.models),
        Route("/v1/models/{name:path}", pages.model),
        Route("/v1/runs", runs.start_or_list, methods=["GET", "POST"]),
        Route("/v1/runs/{run_id}", runs.show_or_delete, methods=["GET", "DELETE"]),
        Route("/v1/runs/{run_id}/events", RunEvents(gateway), methods=["GET", "HEAD"]),
        Route("/v1/runs/{run_id}/stop", runs.stop, methods=["POST"]),
        Route("/v1/runs/{run_id}/approve", runs.approve, methods=["POST"]),
        Route("/v1/chats", chats.list),
        Route("/v1/chats/{chat_id}", chats.show_or_delete, methods=["GET", "DELETE"]),
        Route("/health", pages.ready),
        Route("/health/live", pages.live),
        Route("/health/ready", pages.ready),
        Route("/metrics", pages.metrics),
        Route("/openapi.json", pages.openapi),
    ]


class _Pages:
    """The short answers."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started = int(time.time())
        self._openapi = encode_json(openapi_document())

    async def models(self, request: Request) -> Response:
        names = self._gateway.catalog.names(exchange_of(request.scope).key)
        return json_response({"object": "list", "data": [self._model(name) for name in names]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._gateway.catalog.served(name, exchange_of(request.scope).key)
        return json_response(self._model(name))

    async def live(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        if self._gateway.draining:
            return json_response({"status": "shutting down"}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        body, kind = self._gateway.metrics.render(request.headers.get("accept"))
        return Response(body, media_type=kind)

    async def openapi(self, request: Request) -> Response:
        return Response(self._openapi, media_type="application/json")

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._started, "owned_by": "windlass"}


def _lifespan(gateway: Gateway) -> Any:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None, None]:
        await gateway.open()
        tasks = [asyncio.create_task(gateway.catalog.warm()), asyncio.create_task(gateway.tend())]
        yield
        for task in tasks:
            task.cancel()
        await gateway.aclose()

    return lifespan


def _is_steering(path: str) -> bool:
    """Runs that still go can be stopped and decided about."""
    return path.endswith(("/stop", "/approve"))


def _is_strange(exchange: Exchange, config: GatewayConfig) -> bool:
    """Whether a web page of another origin asks, or one that has renamed its own host to ours."""
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


def _http_problem(error: HTTPException) -> Problem:
    words = {
        404: "There is nothing here: look at /openapi.json for what there is.",
        405: "This address takes another method.",
    }
    return Problem(error.status_code, words.get(error.status_code, error.detail))


def _record(scope: Scope, exchange: Exchange, seconds: float) -> AccessRecord:
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
