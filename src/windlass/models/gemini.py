"""`gemini/` and `vertex/`: the Gemini API and Vertex AI, which share a wire."""

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from urllib.parse import quote

from yarl import URL

from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.http import Http
from windlass.models.keys import Auth, Key, has_auth, key_from
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts, Waiting
from windlass.models.turn import turn_events
from windlass.wires.encoding import request_size
from windlass.wires.gemini.read_events import AnswerDecoder
from windlass.wires.gemini.write_request import RequestEncoder, SchemaForm, is_signed_model

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
_REFUSED_SCHEMA = re.compile(r"(?i)(parameters|response)_?json_?schema")
_MULTI_REGIONS = ("us", "eu")


class _GenerateContent:
    """The common part of both models: everything except the address and the key."""

    def __init__(
        self,
        name: str,
        http: Http,
        path: str,
        encoder: RequestEncoder,
        waiting: Callable[[], Waiting],
    ) -> None:
        self._name, self._http, self._encoder, self._waiting = name, http, encoder, waiting
        self._url = http.address(f"{path}:generateContent")
        self._stream_url = http.address(f"{path}:streamGenerateContent", {"alt": "sse"})

    @property
    def structured_output(self) -> str:
        """How it supports structured output: models before Gemini 3 do not, beside tools."""
        return "always" if is_signed_model(self._name) else "without_tools"

    @property
    def name(self) -> str:
        return self._name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        url = self._stream_url if request.live else self._url
        exchange = _GenerateExchange(request, url, self._encoder, self._http)
        return aclosing(turn_events(self._http, exchange, self._waiting()))

    async def aclose(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, base_url={str(self._url.origin())!r})"


class GeminiModel(_GenerateContent):
    """A model of the Gemini API; `base_url` is the root, without `/v1beta`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = DEFAULT_RETRY,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        waiting: Callable[[Retry], Waiting] = Waiting,
        schema_form: SchemaForm = "json",
    ) -> None:
        """Raises `ConfigError` if there is no key."""
        key = key_from(api_key, "GEMINI_API_KEY", "GOOGLE_API_KEY")
        if key is None and not has_auth(headers):
            raise ConfigError("Gemini needs a key: pass api_key= or set GEMINI_API_KEY")
        auth = Auth("x-goog-api-key", "", key, headers)
        http = Http(base_url or DEFAULT_BASE_URL, auth, timeouts)
        encoder = RequestEncoder(ids=True, signed=is_signed_model(model), schema_form=schema_form)
        path = model if "/" in model else f"models/{model}"
        super().__init__(
            f"gemini/{model}", http, f"/v1beta/{quote(path)}", encoder, partial(waiting, retry)
        )


class VertexModel(_GenerateContent):
    """A model of Vertex AI. The key is an access token, or a function that returns one."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = DEFAULT_RETRY,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        waiting: Callable[[Retry], Waiting] = Waiting,
        schema_form: SchemaForm = "json",
        project: str | None = None,
        location: str | None = None,
    ) -> None:
        """Raises `ConfigError` if there is no token or no project."""
        token = key_from(api_key, "VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN")
        if token is None and not has_auth(headers):
            raise ConfigError(
                "Vertex AI needs an access token: pass api_key= or set VERTEX_ACCESS_TOKEN"
            )
        location = location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
        auth = Auth("Authorization", "Bearer ", token, headers)
        http = Http(base_url or _vertex_root(location), auth, timeouts)
        encoder = RequestEncoder(ids=False, signed=is_signed_model(model), schema_form=schema_form)
        path = f"/v1/{quote(_vertex_path(model, project, location))}"
        super().__init__(f"vertex/{model}", http, path, encoder, partial(waiting, retry))


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


class _GenerateExchange:
    """One generateContent request and its response."""

    __slots__ = ("_encoder", "_form", "_http", "_request", "_url")

    def __init__(
        self, request: ModelRequest, url: URL, encoder: RequestEncoder, http: Http
    ) -> None:
        self._request, self._url, self._encoder, self._http = request, url, encoder, http
        self._form: SchemaForm = encoder.schema_form

    @property
    def size(self) -> int:
        return request_size(self._request)

    def request(self) -> tuple[URL, bytes]:
        self._form = self._encoder.schema_form
        return self._url, self._encoder.body(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets)

    def adapt(self, problem: ModelError) -> bool:
        """Switches to the older schema form for services that do not support JSON Schema."""
        refused = problem.status == 400 and _REFUSED_SCHEMA.search(problem.message)
        if not refused or self._form == "openapi":
            return False
        self._encoder.schema_form = "openapi"
        return True
