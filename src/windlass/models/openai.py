"""`openai/`: any server with OpenAI's chat completions API."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Unpack

from yarl import URL

from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.http_model import HttpExchange, HttpModel, ServiceOptions
from windlass.models.keys import Auth, has_auth, key_from
from windlass.wires.chat.read_events import AnswerDecoder
from windlass.wires.chat.write_request import LimitName, RequestEncoder

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_UNKNOWN_FIELD = re.compile(
    r"(?i)unsupported (param|field|arg)|not supported with|is not supported by|does not support"
    r"|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|forbidden|no such"
    r"|additional propert|extra (field|input|param)|use '?max_"
)
"""The messages of servers that do not know a field."""
_OFFICIAL_HOST = re.compile(r"(.+\.)?api\.openai\.com|.+\.openai\.azure\.com")
"""OpenAI's own service, on Azure or not."""


class OpenAIService(HttpModel):
    """The common part of the models of OpenAI's two APIs. `base_url` includes `/v1`."""

    strict_schemas = True
    """OpenAI enforces closed schemas with all fields required."""

    def __init__(self, name: str, path: str, options: ServiceOptions) -> None:
        """Raises `ConfigError` if OpenAI's own service is used without a key."""
        base_url = options.get("base_url") or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        headers = options.get("headers")
        key = key_from(options.get("api_key"), "OPENAI_API_KEY")
        super().__init__(name, base_url, Auth("Authorization", "Bearer ", key, headers), options)
        self._url = self._http.address(path)
        self._official = _OFFICIAL_HOST.fullmatch(self._http.host) is not None
        if self._official and key is None and not has_auth(headers):
            raise ConfigError("OpenAI needs a key: pass api_key= or set OPENAI_API_KEY")


class OpenAIModel(OpenAIService):
    """A model behind `POST {base_url}/chat/completions`."""

    def __init__(self, model: str, **options: Unpack[ServiceOptions]) -> None:
        """Raises `ConfigError` if OpenAI's own service is used without a key."""
        super().__init__(f"openai/{model}", "/chat/completions", options)
        self._encoder = RequestEncoder(model, official=self._official)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        exchange = _ChatExchange(request, self._url, self._http, self._ceiling, self._encoder)
        return aclosing(self._events(exchange))


class _ChatExchange(HttpExchange[RequestEncoder]):
    """One chat completion request and its response."""

    _options_sent = False
    _limit_sent: LimitName | None = None
    _swapped = False

    def request(self) -> tuple[URL, bytes]:
        self._options_sent = self._encoder.stream_options
        settings = self._request.settings
        self._limit_sent = self._encoder.limit_name(settings) if settings.max_tokens else None
        return self._url, self._encoder.body(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets)

    def adapt(self, problem: ModelError) -> bool:
        """Omits, renames or lowers a refused field, in this request and later ones.

        Some servers refuse `stream_options`. Some know only `max_tokens`; OpenAI's reasoning models
        know only `max_completion_tokens`.
        """
        if problem.status not in (400, 422):
            return False
        if self.lowers_limit(problem):
            return True
        if self._options_sent and "stream_options" in problem.message:
            self._encoder.stream_options = False
            return True
        limit = self._limit_sent
        if limit is None or not _is_refused(limit, problem):
            return False
        if self._swapped:  # both names are refused: the problem is something else
            self._encoder.refused_limit = None
            return False
        self._swapped = True
        self._encoder.refused_limit = limit
        return True


def _is_refused(name: str, problem: ModelError) -> bool:
    """Whether the server does not support the field. A refused value does not count."""
    if not re.search(rf"\b{name}\b", problem.message):
        return False
    return problem.code == "unsupported_parameter" or bool(_UNKNOWN_FIELD.search(problem.message))
