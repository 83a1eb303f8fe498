"""`openai/`: any server with OpenAI's chat completions API."""

import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial

from yarl import URL

from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.http import Http
from windlass.models.keys import Auth, Key, has_auth, key_from
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts, Waiting
from windlass.models.turn import turn_events
from windlass.wires.chat.read_events import AnswerDecoder
from windlass.wires.chat.write_request import LimitName, RequestEncoder
from windlass.wires.encoding import request_size

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_UNKNOWN_FIELD = re.compile(
    r"(?i)unsupported (param|field|arg)|not supported with|is not supported by|does not support"
    r"|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|forbidden|no such"
    r"|additional propert|extra (field|input|param)|use '?max_"
)
"""Messages of servers that do not know a field."""
_OFFICIAL_HOST = re.compile(r"(.+\.)?api\.openai\.com|.+\.openai\.azure\.com")


def is_official(host: str) -> bool:
    """Whether the host is OpenAI's own service, on Azure or not."""
    return _OFFICIAL_HOST.fullmatch(host) is not None


class OpenAIModel:
    """A model behind `POST {base_url}/chat/completions`; `base_url` includes the `/v1`."""

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
    ) -> None:
        """Raises `ConfigError` if OpenAI's own service is used without a key."""
        self._model = model
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        key = key_from(api_key, "OPENAI_API_KEY")
        self._http = Http(base_url, Auth("Authorization", "Bearer ", key, headers), timeouts)
        self._url = self._http.address("/chat/completions")
        official = is_official(self._http.host)
        if official and key is None and not has_auth(headers):
            raise ConfigError("OpenAI needs a key: pass api_key= or set OPENAI_API_KEY")
        self._encoder = RequestEncoder(model, official=official)
        self._waiting = partial(waiting, retry)

    strict_schemas = True
    """OpenAI enforces closed schemas with all fields required."""

    @property
    def name(self) -> str:
        return f"openai/{self._model}"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        exchange = _ChatExchange(request, self._url, self._encoder, self._http)
        return aclosing(turn_events(self._http, exchange, self._waiting()))

    async def aclose(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, base_url={str(self._url.origin())!r})"


class _ChatExchange:
    """One chat completion request and its response."""

    __slots__ = (
        "_encoder",
        "_http",
        "_limit_sent",
        "_options_sent",
        "_request",
        "_swapped",
        "_url",
    )

    def __init__(
        self, request: ModelRequest, url: URL, encoder: RequestEncoder, http: Http
    ) -> None:
        self._request, self._url, self._encoder, self._http = request, url, encoder, http
        self._options_sent = False
        self._limit_sent: LimitName | None = None
        self._swapped = False

    @property
    def size(self) -> int:
        return request_size(self._request)

    def request(self) -> tuple[URL, bytes]:
        self._options_sent = self._encoder.stream_options
        settings = self._request.settings
        self._limit_sent = self._encoder.limit_name(settings) if settings.max_tokens else None
        return self._url, self._encoder.body(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets)

    def adapt(self, problem: ModelError) -> bool:
        """Omits or renames a refused field, in this request and later ones.

        Some servers refuse `stream_options`. Some know only `max_tokens`; OpenAI's reasoning models
        know only `max_completion_tokens`.
        """
        if problem.status not in (400, 422):
            return False
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
