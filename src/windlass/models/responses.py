"""`responses/`: OpenAI's Responses API, and any server that speaks Open Responses."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Unpack

from yarl import URL

from windlass.errors import ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.http_model import HttpExchange, ServiceOptions
from windlass.models.openai import OpenAIService
from windlass.wires.responses.read_events import AnswerDecoder
from windlass.wires.responses.write_request import RequestEncoder, continues_stored

_NO_ENCRYPTED_REASONING = re.compile(
    r"(?i)encrypted.content (is )?not supported|reasoning\.encrypted_content"
    r"|(param|field)\S* '?include\b"
)
_NO_PREVIOUS = re.compile(r"(?i)previous.response.*not found|previous_response_id")


class ResponsesModel(OpenAIService):
    """A model behind `POST {base_url}/responses`."""

    def __init__(self, model: str, **options: Unpack[ServiceOptions]) -> None:
        """Raises `ConfigError` if OpenAI's own service is used without a key."""
        super().__init__(f"responses/{model}", "/responses", options)
        self._encoder = RequestEncoder(model, official=self._official)

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        exchange = _ResponseExchange(request, self._url, self._http, self._ceiling, self._encoder)
        return aclosing(self._events(exchange))


class _ResponseExchange(HttpExchange[RequestEncoder]):
    """One Responses request and its response."""

    _include_sent = False
    _expired = False
    """Whether the service has forgotten the response that the request continues."""

    def request(self) -> tuple[URL, bytes]:
        self._include_sent = self._encoder.encrypted_reasoning
        return self._url, self._encoder.body(self._request, continued=self._continued)

    @property
    def _continued(self) -> bool:
        return not self._expired and continues_stored(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets, keep_id=continues_stored(self._request))

    def adapt(self, problem: ModelError) -> bool:
        """Omits what the server refuses: encrypted reasoning, or a response that has expired.

        OpenAI's models without reasoning refuse to return encrypted reasoning. After a stored
        response has expired, the whole history is sent. A refused limit of tokens is lowered.
        """
        if problem.status not in (400, 404, 422):
            return False
        if self.lowers_limit(problem):
            return True
        if self._include_sent and _NO_ENCRYPTED_REASONING.search(problem.message):
            self._encoder.encrypted_reasoning = False
            return True
        expired = problem.code == "previous_response_not_found"
        if self._continued and (expired or _NO_PREVIOUS.search(problem.message)):
            self._expired = True
            return True
        return False
