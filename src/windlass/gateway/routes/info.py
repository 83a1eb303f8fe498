"""`/v1/models`, `/health`, `/metrics` and `/openapi.json`: information about the gateway."""

import time

from starlette.requests import Request
from starlette.responses import Response

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import exchange_of, json_response
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.served_model import ServedModel
from windlass.gateway.openapi import openapi_document
from windlass.jsontext import encode_json
from windlass.wires.errors import Problem
from windlass.wires.fields import JsonObject


class InfoRoutes:
    """Endpoints that answer from the gateway's state, without a run."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started = int(time.time())
        self._openapi = encode_json(openapi_document())

    async def models(self, request: Request) -> Response:
        registry = self._gateway.registry
        names = registry.names(exchange_of(request.scope).key)
        data = [await self._model(registry.models[name]) for name in names]
        return json_response({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        name, key = request.path_params["name"], exchange_of(request.scope).key
        return json_response(await self._model(self._gateway.registry.served(name, key)))

    async def live(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        if self._gateway.draining:
            return json_response({"status": "shutting down"}, 503)
        durable = self._gateway.durable
        trouble = durable.trouble if durable is not None else None
        trouble = trouble or self._gateway.sessions.trouble
        if trouble is not None:
            return json_response({"status": trouble}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        key = exchange_of(request.scope).key
        if key is not None and not (key.models is None if key.metrics is None else key.metrics):
            message = "This key may not read /metrics, which names all keys and models."
            raise Refused(Problem(403, message, "metrics_not_allowed"))
        body, kind = self._gateway.metrics.render(request.headers.get("accept"))
        return Response(body, media_type=kind)

    async def openapi(self, request: Request) -> Response:
        return Response(self._openapi, media_type="application/json")

    async def _model(self, served: ServedModel) -> JsonObject:
        """A model as OpenAI's clients expect it, with one more field, `windlass`."""
        config = served.config
        tools = await self._gateway.registry.tools_of(served)
        return {
            "id": served.name,
            "object": "model",
            "created": self._started,
            "owned_by": "windlass",
            "windlass": {
                "tools": [tool.name for tool in tools],
                "mode": served.mode,
                "max_rounds": config.max_rounds,
                "sessions": config.sessions,
            },
        }
