"""The base of all models over HTTP: a name, a connection, retries, and the limit of an answer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypedDict, TypeVar

from msgspec.structs import replace
from yarl import URL

from windlass.errors import ModelError
from windlass.model import EventBatches, ModelRequest
from windlass.models.http import Http
from windlass.models.keys import Auth, Key
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts, Waiting
from windlass.models.turn import WireExchange, turn_events
from windlass.wires.encoding import request_size
from windlass.wires.upstream_errors import output_limit

EncoderT = TypeVar("EncoderT")

MAX_LOWERED = 2
"""How often one request lowers its `max_tokens`."""


class ServiceOptions(TypedDict, total=False):
    """The options that all models over HTTP have."""

    base_url: str | None
    api_key: Key | None
    headers: Mapping[str, str] | None
    retry: Retry
    timeouts: Timeouts
    waiting: Callable[[Retry], Waiting]


class HttpModel:
    """A model behind one address of a service."""

    def __init__(self, name: str, base_url: str, auth: Auth, options: ServiceOptions) -> None:
        self._name = name
        self._http = Http(base_url, auth, options.get("timeouts", DEFAULT_TIMEOUTS))
        waiting = options.get("waiting", Waiting)
        self._waiting = partial(waiting, options.get("retry", DEFAULT_RETRY))
        self._ceiling = OutputCeiling()

    @property
    def name(self) -> str:
        return self._name

    async def aclose(self) -> None:
        await self._http.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, base_url={self._http.origin!r})"

    def _events(
        self, exchange: WireExchange, headers: Mapping[str, str] | None = None
    ) -> EventBatches:
        """The events of one turn."""
        return turn_events(self._http, exchange, self._waiting(), headers)


class OutputCeiling:
    """The largest `max_tokens` of a model, once a refusal has named it.

    Clients such as Claude Code always request as many tokens as Claude can write.
    """

    __slots__ = ("tokens",)

    def __init__(self) -> None:
        self.tokens: int | None = None

    def applied(self, request: ModelRequest, sent: int | None) -> ModelRequest:
        """The request, of which this `max_tokens` would be sent, with one within the ceiling."""
        if self.tokens is None or sent is None or sent <= self.tokens:
            return request
        return with_limit(request, self.tokens)


def with_limit(request: ModelRequest, tokens: int) -> ModelRequest:
    """The request with this `max_tokens`."""
    return replace(request, settings=replace(request.settings, max_tokens=tokens))


class HttpExchange(Generic[EncoderT]):
    """One request to a model and its response. A refused `max_tokens` is lowered.

    The encoder belongs to the model: what it learns from a refusal applies to later requests.
    """

    def __init__(
        self,
        request: ModelRequest,
        url: URL,
        http: Http,
        ceiling: OutputCeiling,
        encoder: EncoderT,
        usual_limit: int | None = None,
    ) -> None:
        """`usual_limit` is the `max_tokens` of a request that sets none."""
        self._url, self._http, self._ceiling, self._encoder = url, http, ceiling, encoder
        self._usual_limit, self._lowered = usual_limit, 0
        self._request = ceiling.applied(request, request.settings.max_tokens or usual_limit)

    @property
    def size(self) -> int:
        return request_size(self._request)

    def lowers_limit(self, problem: ModelError) -> bool:
        """Lowers `max_tokens` if the service refuses it and names the accepted maximum."""
        sent = self._request.settings.max_tokens or self._usual_limit
        if problem.status not in (400, 422) or sent is None or self._lowered == MAX_LOWERED:
            return False
        limit = output_limit(problem.message)
        if limit is None or not 1 <= limit.tokens < sent:
            return False
        if limit.of_model:
            self._ceiling.tokens = limit.tokens
        self._request = with_limit(self._request, limit.tokens)
        self._lowered += 1
        return True
