"""A fake of Google's Gemini service, by the paths of the Gemini API and of Vertex."""

import re
from collections.abc import Sequence
from typing import Any, Unpack

from windlass.testing.exchange import Exchange, Received, Refused
from windlass.testing.fake import FakeUpstream
from windlass.testing.gemini_rules import Rules, check_generate_request
from windlass.testing.gemini_wire import GenerateExchange
from windlass.testing.script import Refuse, Script
from windlass.testing.sse import Transport, TransportOptions

__all__ = ["FakeGemini"]

_MODEL_PATH = re.compile(
    r"/(?P<version>v\d\w*)/"
    r"(?P<vertex>(projects/[^/]+/locations/[^/]+/)?publishers/google/)?"
    r"models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)"
)
_LIST_PATH = re.compile(r"/v\d\w*/models(/(?P<model>[^/:]+))?")
_STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_NO_KEY = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use "
    "API Key or other form of API consumer identity to call this API."
)
_BAD_TOKEN = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
    "or other valid authentication credential."
)


class FakeGemini(FakeUpstream):
    """Gemini's wire from a script: `generateContent` and `streamGenerateContent`.

    `ids`: whether calls have one; by Vertex's paths they never do, and an `id` sent is refused.
    `signatures`: whether calls are signed and unsigned ones refused; None does so for the models
    named gemini-3 and later ones. `json_schema`: whether `parametersJsonSchema` is known. `models`:
    the names it knows, if not all. The other options are in `TransportOptions`.
    """

    def __init__(
        self,
        script: Script[dict[str, Any]] = (),
        *,
        api_key: str | None = None,
        models: Sequence[str] = (),
        ids: bool = True,
        signatures: bool | None = None,
        json_schema: bool = True,
        port: int = 0,
        **options: Unpack[TransportOptions],
    ) -> None:
        super().__init__(script, api_key, port, Transport(**options))
        self._models = tuple(models)
        self._ids = ids
        self._signatures = signatures
        self._json_schema = json_schema

    @property
    def base_url(self) -> str:
        return self.root_url

    def _is_model_request(self, received: Received) -> bool:
        return received.method == "POST" and _MODEL_PATH.fullmatch(received.path) is not None

    def _accepted(self, received: Received) -> Exchange | Any:
        found = _MODEL_PATH.fullmatch(received.path)
        if found is None or received.method != "POST":
            return self._listing(received)
        vertex = found["vertex"] is not None
        self._check_key(received, vertex)
        model = found["model"]
        self._check_model(model, found["version"])
        signatures = self._signs(model)
        rules = Rules(ids=not vertex, json_schema=self._json_schema, signatures=signatures)
        request = check_generate_request(received.body, rules)
        events = received.query.get("alt") == "sse"
        wants_stream = found["verb"] == "streamGenerateContent"
        return GenerateExchange(
            model=model,
            streams=wants_stream and events,
            as_list=wants_stream and not events,
            ids=self._ids and not vertex,
            signs=signatures,
            partial=vertex and _streams_arguments(request),
            logprobs=_config(request).get("responseLogprobs") is True,
        )

    def _signs(self, model: str) -> bool:
        if self._signatures is not None:
            return self._signatures
        generation = re.match(r"gemini-(\d+)", model)
        return generation is not None and int(generation[1]) >= 3

    def _listing(self, received: Received) -> dict[str, Any]:
        self._check_key(received, vertex=False)
        found = _LIST_PATH.fullmatch(received.path)
        if found is None or received.method != "GET":
            raise Refused(404, f"Not found: {received.method} {received.path}")
        if found["model"]:
            self._check_model(found["model"], "v1beta")
            return _model(found["model"])
        return {"models": [_model(name) for name in self._models or ("gemini-fake",)]}

    def _check_key(self, received: Received, vertex: bool) -> None:
        bearer = received.headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = received.headers.get("x-goog-api-key") or received.query.get("key") or bearer
        if self.api_key is None or key == self.api_key:
            return
        if vertex:
            raise Refused(401, _BAD_TOKEN)
        if not key:
            raise Refused(403, _NO_KEY)
        raise Refused(400, "API key not valid. Please pass a valid API key.")

    def _check_model(self, model: str, version: str) -> None:
        if self._models and model not in self._models:
            raise Refused(
                404,
                f"models/{model} is not found for API version {version}, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their "
                "supported methods.",
            )

    def _error_body(self, error: Refuse | Refused) -> Any:
        details: list[dict[str, Any]] = []
        if isinstance(error, Refuse) and error.retry_after is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            details.append({"@type": kind, "retryDelay": f"{error.retry_after:g}s"})
        return {
            "error": {
                "code": error.status,
                "message": error.message,
                "status": error.code or _STATUS_WORDS.get(error.status, "UNKNOWN"),
                **({"details": details} if details else {}),
            }
        }


def _config(request: dict[str, Any]) -> dict[str, Any]:
    return request.get("generationConfig") or request.get("generation_config") or {}


def _streams_arguments(request: dict[str, Any]) -> bool:
    match request.get("toolConfig"):
        case {"functionCallingConfig": {"streamFunctionCallArguments": True}}:
            return True
        case _:
            return False


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
