"""Google's generateContent API, on the paths of the Gemini API and of Vertex AI."""

import functools
from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.gateway.gateway import Gateway
from windlass.gateway.http.context import (
    JSON_TYPE,
    Receive,
    Scope,
    Send,
    exchange_of,
    json_response,
    respond_json,
)
from windlass.gateway.openapi.operations import (
    GUARDED,
    MODE_PARAMETER,
    SESSION_PARAMETER,
    STARTING,
    WAITING,
    EventStream,
    Operation,
    Paths,
    RequestParameter,
    path_parameter,
)
from windlass.gateway.routes.wire import Wire, answer, input_tokens, read_run_request
from windlass.gateway.runs.run import GatewayRun
from windlass.jsontext import encode_json
from windlass.request import RequestLimits, RunRequest
from windlass.wires.errors import InvalidRequest
from windlass.wires.gemini.read_request import CALLING, counted_body, read_request
from windlass.wires.gemini.types import (
    CountTokensRequest,
    CountTokensResponse,
    GeminiErrorJson,
    GeminiModelJson,
    GeminiModelListJson,
    GenerateContentRequest,
    GenerateContentResponse,
)
from windlass.wires.gemini.write_events import (
    METHODS,
    AnswerHead,
    ChunkEncoder,
    Form,
    answer_body,
    error_body,
    model_fields,
)

MODELS = "/v1beta/models"
_PUBLISHED = "publishers/{publisher}/models"
_PROJECT = "projects/{project}/locations/{location}"
OTHER_PATHS = (
    "/v1/models",
    "/v1beta/tunedModels",
    *(
        f"/{version}/{place}"
        for version in ("v1", "v1beta1")
        for place in (f"{_PROJECT}/{_PUBLISHED}", _PUBLISHED)
    ),
)
"""The same models under the paths of other versions, and of Vertex AI."""

_MODEL = path_parameter("model", "The model's name; it may contain slashes and colons.")
_ALT = RequestParameter(
    "alt", "query", "`sse` for server-sent events; else a stream is a JSON list."
)
_KEY = RequestParameter("key", "query", "The key, for clients that do not send it in a header.")
_HEADERS = ("X-Windlass-Run-Id", "X-Function-Calling-Mode")

PATHS: Paths = {
    MODELS: {
        "get": Operation(
            id="listGeminiModels",
            summary="Lists the models that this key may use, in Google's form.",
            parameters=(_KEY,),
            answer=GeminiModelListJson,
            error=GeminiErrorJson,
        )
    },
    f"{MODELS}/{{model}}": {
        "get": Operation(
            id="getGeminiModel",
            summary="Returns one model, in Google's form.",
            parameters=(_MODEL, _KEY),
            answer=GeminiModelJson,
            problems=(404, *GUARDED),
            error=GeminiErrorJson,
        )
    },
    f"{MODELS}/{{model}}:generateContent": {
        "post": Operation(
            id="generateContent",
            summary="Returns the model's answer to a conversation. The gateway runs its tools.",
            body=GenerateContentRequest,
            parameters=(_MODEL, _KEY, MODE_PARAMETER, SESSION_PARAMETER),
            answer=GenerateContentResponse,
            headers=_HEADERS,
            problems=(*STARTING, *WAITING),
            error=GeminiErrorJson,
        )
    },
    f"{MODELS}/{{model}}:streamGenerateContent": {
        "post": Operation(
            id="streamGenerateContent",
            summary="Streams the model's answer to a conversation. The gateway runs its tools.",
            body=GenerateContentRequest,
            parameters=(_MODEL, _ALT, _KEY, MODE_PARAMETER, SESSION_PARAMETER),
            answer=list[GenerateContentResponse | GeminiErrorJson],
            stream=EventStream((GenerateContentResponse, GeminiErrorJson)),
            headers=_HEADERS,
            problems=(*STARTING, *WAITING),
            error=GeminiErrorJson,
        )
    },
    f"{MODELS}/{{model}}:countTokens": {
        "post": Operation(
            id="countTokens",
            summary="Estimates the tokens of a request, with the gateway's tools and prompt.",
            body=CountTokensRequest,
            parameters=(_MODEL, _KEY, MODE_PARAMETER, SESSION_PARAMETER),
            answer=CountTokensResponse,
            problems=STARTING,
            error=GeminiErrorJson,
        )
    },
}


def model_name(path: MutableMapping[str, Any]) -> str:
    """The name of the model in the parameters of a path.

    Clients of Vertex AI write a model `a/b` as the model `b` of the publisher `a`. Others write the
    full name of a model, `models/b`.
    """
    publisher, model = path.get("publisher", "google"), path["model"].removeprefix("models/")
    return model if publisher == "google" else f"{publisher}/{model}"


class Generate:
    """`:generateContent` and `:streamGenerateContent`, as plain ASGI."""

    def __init__(self, gateway: Gateway, *, live: bool) -> None:
        self._gateway, self._live = gateway, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        read = functools.partial(
            read_request,
            model=model_name(scope["path_params"]),
            earlier_text=gateway.config.server.earlier_text,
            live=self._live,
        )
        request = await read_run_request(gateway, scope, receive, read)
        sse = not self._live or Request(scope).query_params.get("alt") == "sse"
        writer = GeminiAnswer(sse=sse)
        try:
            await answer(gateway, request, scope, receive, send if sse else _as_json(send), writer)
        except InvalidRequest as error:
            raise _in_terms_of_wire(error) from None


def _as_json(send: Send) -> Send:
    """Sends a stream as JSON instead of server-sent events."""

    async def send_as_json(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            others = [each for each in message["headers"] if each[0] != JSON_TYPE[0]]
            message = {**message, "headers": [JSON_TYPE, *others]}
        await send(message)

    return send_as_json


def _in_terms_of_wire(error: InvalidRequest) -> InvalidRequest:
    """The error, with the field's name on this wire."""
    if error.param != "tool_choice":
        return error
    said = error.message.replace("tool_choice", CALLING, 1)
    return InvalidRequest(said, CALLING, error.code)


class GeminiAnswer:
    """Writes the answer of a run as one body, or as its chunks."""

    def __init__(self, *, sse: bool) -> None:
        self._sse = sse

    def whole(self, run: GatewayRun) -> bytes:
        form = msgspec.convert(run.origin.answer, Form)
        return answer_body(
            _head(run), run.reply.without_rejected(), run.plan.tools, run.call_ids, form
        )

    def on_pause(self, run: GatewayRun, pause: Callable[[], None]) -> None:
        """Does nothing: approvals are made on another connection."""

    def stream(self, run: GatewayRun) -> ChunkEncoder:
        form = msgspec.convert(run.origin.answer, Form)
        return ChunkEncoder(_head(run), run.plan.tools, run.call_ids, form, sse=self._sse)


def _head(run: GatewayRun) -> AnswerHead:
    return AnswerHead(run.id, run.record.model)


class CountTokens:
    """`:countTokens`: estimates the tokens that the model would receive."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = functools.partial(_read_counted, model=model_name(scope["path_params"]))
        request = await read_run_request(self._gateway, scope, receive, read)
        try:
            total = await input_tokens(self._gateway, request, scope)
        except InvalidRequest as error:
            raise _in_terms_of_wire(error) from None
        await respond_json(send, encode_json({"totalTokens": total}))


def _read_counted(body: bytes, limits: RequestLimits, model: str) -> RunRequest:
    return read_request(counted_body(body, limits), limits, model)


class OtherMethod:
    """A method under one of the other paths. Raises a 404 for an unknown one."""

    def __init__(self, gateway: Gateway) -> None:
        self._methods = _methods(gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = self._methods.get(scope["path_params"]["method"])
        if method is None:
            raise HTTPException(404)
        await method(scope, receive, send)


def _methods(gateway: Gateway) -> dict[str, Generate | CountTokens]:
    return {
        "generateContent": Generate(gateway, live=False),
        "streamGenerateContent": Generate(gateway, live=True),
        "countTokens": CountTokens(gateway),
    }


class GeminiModels:
    """`GET /v1beta/models` and its models."""

    def __init__(self, gateway: Gateway) -> None:
        self._registry = gateway.registry

    async def list(self, request: Request) -> Response:
        names = self._registry.names(exchange_of(request.scope).key)
        return json_response({"models": list(map(model_fields, names))})

    async def show(self, request: Request) -> Response:
        name, key = model_name(request.path_params), exchange_of(request.scope).key
        return json_response(model_fields(self._registry.served(name, key).name))


def routes(gateway: Gateway) -> list[Route]:
    models, other = GeminiModels(gateway), OtherMethod(gateway)
    return [
        *(
            Route(f"{MODELS}/{{model:path}}:{name}", method, methods=["POST"])
            for name, method in _methods(gateway).items()
        ),
        *(
            Route(
                f"{path}/{{model:path}}:{{method}}",
                other,
                methods=["POST"],
                include_in_schema=False,
            )
            for path in (MODELS, *OTHER_PATHS)
        ),
        Route(MODELS, models.list),
        Route(f"{MODELS}/{{model:path}}", models.show),
    ]


WIRE = Wire(
    routes,
    ("/v1beta/", "/v1beta1/", "/v1/projects/", "/v1/publishers/"),
    error_body,
    endings=tuple(f":{name}" for name in METHODS),
    key_in_query=True,
)
