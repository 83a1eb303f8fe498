"""`gemini/` and `vertex/`: the Gemini API and Vertex AI, which share a wire."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Unpack
from urllib.parse import quote

from yarl import URL

from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.http_model import HttpExchange, HttpModel, ServiceOptions
from windlass.models.keys import Auth, has_auth, key_from
from windlass.wires.gemini.read_events import AnswerDecoder
from windlass.wires.gemini.write_request import RequestEncoder, SchemaForm, is_signed_model

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
_REFUSED_SCHEMA = re.compile(r"(?i)(parameters|response)_?json_?schema")
_MULTI_REGIONS = ("us", "eu")


class _GenerateContent(HttpModel):
    """The common part of both models: everything except the address and the key."""

    def __init__(
        self,
        name: str,
        base_url: str,
        auth: Auth,
        path: str,
        encoder: RequestEncoder,
        options: ServiceOptions,
    ) -> None:
        super().__init__(name, base_url, auth, options)
        self._encoder = encoder
        self._url = self._http.address(f"{path}:generateContent")
        self._stream_url = self._http.address(f"{path}:streamGenerateContent", {"alt": "sse"})

    @property
    def structured_output(self) -> str:
        """How it supports structured output: models before Gemini 3 do not, beside tools."""
        return "always" if is_signed_model(self.name) else "without_tools"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        url = self._stream_url if request.live else self._url
        exchange = _GenerateExchange(request, url, self._http, self._ceiling, self._encoder)
        return aclosing(self._events(exchange))


class GeminiModel(_GenerateContent):
    """A model of the Gemini API; `base_url` is the root, without `/v1beta`."""

    def __init__(
        self, model: str, *, schema_form: SchemaForm = "json", **options: Unpack[ServiceOptions]
    ) -> None:
        """Raises `ConfigError` if there is no key."""
        headers = options.get("headers")
        key = key_from(options.get("api_key"), "GEMINI_API_KEY", "GOOGLE_API_KEY")
        if key is None and not has_auth(headers):
            raise ConfigError("Gemini needs a key: pass api_key= or set GEMINI_API_KEY")
        auth = Auth("x-goog-api-key", "", key, headers)
        base_url = options.get("base_url") or DEFAULT_BASE_URL
        encoder = RequestEncoder(ids=True, signed=is_signed_model(model), schema_form=schema_form)
        path = quote(model if "/" in model else f"models/{model}")
        super().__init__(f"gemini/{model}", base_url, auth, f"/v1beta/{path}", encoder, options)


class VertexModel(_GenerateContent):
    """A model of Vertex AI. The key is an access token, or a function that returns one."""

    def __init__(
        self,
        model: str,
        *,
        schema_form: SchemaForm = "json",
        project: str | None = None,
        location: str | None = None,
        **options: Unpack[ServiceOptions],
    ) -> None:
        """Raises `ConfigError` if there is no token or no project."""
        headers = options.get("headers")
        token = key_from(options.get("api_key"), "VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN")
        if token is None and not has_auth(headers):
            raise ConfigError(
                "Vertex AI needs an access token: pass api_key= or set VERTEX_ACCESS_TOKEN"
            )
        location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        auth = Auth("Authorization", "Bearer ", token, headers)
        base_url = options.get("base_url") or _vertex_root(location)
        encoder = RequestEncoder(ids=False, signed=is_signed_model(model), schema_form=schema_form)
        path = quote(_vertex_path(model, project, location))
        super().__init__(f"vertex/{model}", base_url, auth, f"/v1/{path}", encoder, options)


def _vertex_root(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _vertex_path(model: str, project: str | None, location: str) -> str:
    if model.startswith("projects/"):
        return model
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise ConfigError("Vertex AI needs a project: pass project= or set GOOGLE_CLOUD_PROJECT")
    return f"projects/{project}/locations/{location}/publishers/google/models/{model}"


class _GenerateExchange(HttpExchange[RequestEncoder]):
    """One generateContent request and its response."""

    _form: SchemaForm | None = None
    """The form of the schemas in the last request."""

    def request(self) -> tuple[URL, bytes]:
        self._form = self._encoder.schema_form
        return self._url, self._encoder.body(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets)

    def adapt(self, problem: ModelError) -> bool:
        """Lowers a refused limit; uses older schemas for services without JSON Schema."""
        if self.lowers_limit(problem):
            return True
        refused = problem.status == 400 and _REFUSED_SCHEMA.search(problem.message)
        if not refused or self._form == "openapi":
            return False
        self._encoder.schema_form = "openapi"
        return True
