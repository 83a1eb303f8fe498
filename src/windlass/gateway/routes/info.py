"""`/v1/models`, `/health`, `/metrics`: information about the gateway, and prompts for new chats."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from windlass.content import FunctionDeclaration
from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import exchange_of, json_response
from windlass.gateway.http.errors import Refused
from windlass.gateway.models.served_model import ServedModel, attachments_of
from windlass.gateway.openapi.operations import (
    ALWAYS,
    GUARDED,
    ModeJson,
    Operation,
    OtherAnswer,
    Paths,
    path_parameter,
)
from windlass.jsontext import offloaded
from windlass.model import CachingModel
from windlass.models.local.weights import CATALOG
from windlass.request import PartKind
from windlass.tool import Tool
from windlass.wires.errors import Problem
from windlass.wires.fields import Count, Json, JsonObject, as_list, as_object
from windlass.wires.gemini.write_events import model_fields

ANTHROPIC_VERSION = "anthropic-version"
"""The header that identifies Anthropic's clients, which expect lists in Anthropic's form."""


class ModelSettingsJson(Json):
    """The gateway's settings for the model."""

    target: str
    """The provider and the model behind the name."""
    title: str
    """The model's own name, for people."""
    tools: list[str]
    mode: ModeJson
    max_rounds: Count
    sessions: list[str]
    status: Literal["ready", "loading", "reading"]
    """`loading`: the weights of a local model. `reading`: its instructions and tools. Requests
    are accepted in every status and wait for the model."""
    ready_in: Count | None
    """About how many seconds it takes until a model is ready; null if it is ready or unknown."""
    approval_timeout: float
    """Seconds that a call waits for approval; then it is denied."""
    attachments: list[PartKind]
    """The kinds of parts besides text that a message may have."""
    examples: list[str]
    """Prompts to begin with: the configured ones, or some that suit the tools."""


class ModelJson(Json):
    id: str
    object: Literal["model"]
    created: Count
    owned_by: str
    windlass: ModelSettingsJson


class ModelListJson(Json):
    object: Literal["list"]
    data: list[ModelJson]


class ClearedJson(Json):
    """The result of clearing the cache of a model."""

    model: str
    cleared: Count
    """How many pages had declarations."""


class HealthJson(Json):
    status: Literal["ok"]


class NotReadyJson(Json):
    status: str
    """`shutting down`, or what the gateway cannot use."""


def _readiness(id: str) -> Operation:
    return Operation(
        id=id,
        summary="Returns whether the gateway accepts requests.",
        answer=HealthJson,
        problems=ALWAYS,
        more={
            503: OtherAnswer(
                "The gateway is shutting down, or cannot write the log of runs.", NotReadyJson
            )
        },
        guarded=False,
    )


PATHS: Paths = {
    "/v1/models": {
        "get": Operation(
            id="listModels",
            summary="Lists the models that this key may use. With the header `anthropic-version`,"
            " the list has Anthropic's form and contains aliases.",
            answer=ModelListJson,
        )
    },
    "/v1/models/{name}": {
        "get": Operation(
            id="getModel",
            summary="Returns one model.",
            parameters=(path_parameter("name", "The model's name; it may contain slashes."),),
            answer=ModelJson,
            problems=(404, *GUARDED),
        )
    },
    "/v1/models/{name}/cache": {
        "delete": Operation(
            id="clearModelCache",
            summary="Clears the cache of a model's function declarations: the next request declares"
            " its functions again. Only models of the AI Studio page have such a cache.",
            parameters=(path_parameter("name", "The model's name; it may contain slashes."),),
            answer=ClearedJson,
            problems=(404, *GUARDED),
        )
    },
    "/health": {"get": _readiness("health")},
    "/health/live": {
        "get": Operation(
            id="live",
            summary="Returns 200 while the process is alive.",
            answer=HealthJson,
            problems=ALWAYS,
            guarded=False,
        )
    },
    "/health/ready": {"get": _readiness("ready")},
    "/metrics": {
        "get": Operation(
            id="metrics",
            summary="Returns the metrics in Prometheus format. A key that is limited to some models"
            " needs the setting `metrics = true`.",
            texts=("text/plain", "application/openmetrics-text"),
        )
    },
}


class InfoRoutes:
    """Endpoints that return the state of the gateway, without a run."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started = int(time.time())

    async def models(self, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        registry, key, owner = self._gateway.registry, exchange.key, exchange.owner
        names = registry.names(key)
        if ANTHROPIC_VERSION in request.headers:
            known = dict.fromkeys([*names, *registry.aliases(key)])
            return json_response(anthropic_models([*known], self._started))
        if _is_google_client(request):
            return json_response({"models": list(map(model_fields, names))})
        data = [await self._model(registry.models[name], owner) for name in names]
        return json_response({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        name, key = request.path_params["name"], exchange_of(request.scope).key
        served = self._gateway.registry.served(name, key)
        if ANTHROPIC_VERSION in request.headers:
            return json_response(anthropic_model(name, self._started))
        if _is_google_client(request):
            return json_response(model_fields(served.name))
        return json_response(await self._model(served, exchange_of(request.scope).owner))

    async def clear_cache(self, request: Request) -> Response:
        name, key = request.path_params["name"], exchange_of(request.scope).key
        served = self._gateway.registry.served(name, key)
        if not isinstance(served.model, CachingModel):
            message = f"The model {served.name!r} has no cache of function declarations."
            raise Refused(Problem(404, message, "no_cache", "model"))
        return json_response({"model": served.name, "cleared": served.model.clear_cache()})

    async def live(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        if self._gateway.draining:
            return json_response({"status": "shutting down"}, 503)
        control = self._gateway.service.control
        trouble = control.trouble if control is not None else None
        trouble = trouble or self._gateway.sessions.trouble
        if trouble is not None:
            return json_response({"status": trouble}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        key = exchange_of(request.scope).key
        if key is not None and not (key.models is None if key.metrics is None else key.metrics):
            message = "This key may not read /metrics, which names all keys and models."
            raise Refused(Problem(403, message, "metrics_not_allowed"))
        accept = request.headers.get("accept")
        # A thousand tools have 26,000 series: a third of a second.
        body, kind = await offloaded(self._gateway.metrics.render, accept)
        return Response(body, media_type=kind)

    async def _model(self, served: ServedModel, owner: str) -> ModelJson:
        """A model as OpenAI's clients expect it, with one more field, `windlass`."""
        config = served.config
        tools = await self._gateway.registry.tools_of(served, owner)
        preparation = served.preparation
        return {
            "id": served.name,
            "object": "model",
            "created": self._started,
            "owned_by": "windlass",
            "windlass": {
                "target": config.target,
                "title": model_title(config.target),
                "tools": [tool.name for tool in tools],
                "mode": served.mode,
                "max_rounds": config.max_rounds,
                "sessions": list(config.sessions),
                "status": preparation.stage if preparation else "ready",
                "ready_in": preparation.seconds_left if preparation else None,
                "approval_timeout": config.approval_timeout,
                "attachments": attachments_of(config.target.partition("/")[0]),
                "examples": list(config.examples) or example_prompts(tools),
            },
        }


def model_title(target: str) -> str:
    """The model's own name: that of the embedded weights, or the target without the provider."""
    provider, _, name = target.partition("/")
    weights = CATALOG.get(name) if provider == "local" else None
    return weights.title if weights else name


def _is_google_client(request: Request) -> bool:
    """Whether the client is Google's SDK, which uses the same path as OpenAI's."""
    return "x-goog-api-client" in request.headers or "x-goog-api-key" in request.headers


def anthropic_models(names: Sequence[str], created: int) -> JsonObject:
    """The list of models as Anthropic's clients expect it."""
    data = [anthropic_model(name, created) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def anthropic_model(name: str, created: int) -> JsonObject:
    """A model as Anthropic's clients expect it."""
    at = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": at,
        "lifecycle": "active",
    }


MAX_EXAMPLES = 4
GENERAL = (
    "Explain how rainbows form, in three sentences.",
    "Write a short poem about the sea.",
    "Write a Python function that checks whether a word is a palindrome.",
    "List five ideas for a rainy weekend.",
)
"""Prompts for a model with few tools or none."""
OVERVIEW = "What can you do? List your tools with one sentence each."


def example_prompts(tools: Sequence[Tool]) -> list[str]:
    """Returns four prompts.

    A tool whose schema gives an example or a default for each required argument is called with
    these values. For any other tool, the prompt asks only what it does: an invented argument could
    have an effect.
    """
    declared = [each.declaration for each in tools]
    functions = [each for each in declared if isinstance(each, FunctionDeclaration)]
    if not functions:
        return list(GENERAL)
    prompts = [_call_prompt(each) or _question(each) for each in functions]
    return [OVERVIEW, *prompts, *GENERAL][:MAX_EXAMPLES]


def _question(function: FunctionDeclaration) -> str:
    return f"What does {function.name} do? Give an example of a question for it."


def _call_prompt(function: FunctionDeclaration) -> str | None:
    """A prompt that calls the tool with values of its schema; None if some are missing."""
    schema: dict[str, Any] = function.parameters or {}
    properties = as_object(schema.get("properties")) or {}
    required = as_list(schema.get("required")) or []
    values = {name: _sample(as_object(properties.get(name)) or {}) for name in required}
    if not values or None in values.values():
        return None
    given = " and ".join(f"{name} {value}" for name, value in values.items())
    return f"Use {function.name} with {given}."


def _sample(schema: dict[str, Any]) -> str | None:
    examples = as_list(schema.get("examples")) or []
    value = examples[0] if examples else schema.get("default")
    return None if value is None or isinstance(value, dict | list) else str(value)
