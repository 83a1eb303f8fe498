"""`responses/`: OpenAI's Responses API, and any server that speaks Open Responses."""

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
from windlass.models.openai import DEFAULT_BASE_URL, is_official
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts, Waiting
from windlass.models.turn import turn_events
from windlass.wires.encoding import request_size
from windlass.wires.responses.read_events import AnswerDecoder
from windlass.wires.responses.write_request import RequestEncoder, continues_stored

_NO_ENCRYPTED_REASONING = re.compile(
    r"(?i)encrypted.content (is )?not supported|reasoning\.encrypted_content"
    r"|(param|field)\S* '?include\b"
)
_NO_PREVIOUS = re.compile(r"(?i)previous.response.*not found|previous_response_id")


class ResponsesModel:
    """A model behind `POST {base_url}/responses`; `base_url` includes the `/v1`."""

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
        self._url = self._http.address("/responses")
        official = is_official(self._http.host)
        if official and key is None and not has_auth(headers):
            raise ConfigError("OpenAI needs a key: pass api_key= or set OPENAI_API_KEY")
        self._encoder = RequestEncoder(model, official=official)
        self._waiting = partial(waiting, retry)

    strict_schemas = True
    """OpenAI enforces closed schemas with all fields required."""

    @property
    def name(self) -> str:
        return f"responses/{self._model}"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        exchange = _ResponseExchange(request, self._url, self._encoder, self._http)
        return aclosing(turn_events(self._http, exchange, self._waiting()))

    async def aclose(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"ResponsesModel({self._model!r}, base_url={str(self._url.origin())!r})"


class _ResponseExchange:
    """One Responses request and its response."""

    __slots__ = ("_continued", "_encoder", "_http", "_include_sent", "_request", "_url")

    def __init__(
        self, request: ModelRequest, url: URL, encoder: RequestEncoder, http: Http
    ) -> None:
        self._request, self._url, self._encoder, self._http = request, url, encoder, http
        self._continued = continues_stored(request)
        self._include_sent = False

    @property
    def size(self) -> int:
        return request_size(self._request)

    def request(self) -> tuple[URL, bytes]:
        self._include_sent = self._encoder.encrypted_reasoning
        return self._url, self._encoder.body(self._request, continued=self._continued)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets, keep_id=continues_stored(self._request))

    def adapt(self, problem: ModelError) -> bool:
        """Omits what the server refuses: encrypted reasoning, or a response that it forgot.

        OpenAI's models without reasoning refuse to return encrypted reasoning. A stored response
        expires; then the whole history is sent.
        """
        if problem.status not in (400, 404, 422):
            return False
        if self._include_sent and _NO_ENCRYPTED_REASONING.search(problem.message):
            self._encoder.encrypted_reasoning = False
            return True
        expired = problem.code == "previous_response_not_found"
        if self._continued and (expired or _NO_PREVIOUS.search(problem.message)):
            self._continued = False
            return True
        return False
