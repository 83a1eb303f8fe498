"""`anthropic/`: Claude, and any server with Anthropic's Messages API."""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Unpack

from msgspec.structs import replace
from yarl import URL

from windlass.content import ProviderTool, Usage
from windlass.errors import ConfigError, ModelError
from windlass.events import (
    ModelEvent,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.loop.turn import TurnBuilder
from windlass.model import EventBatches, ModelRequest
from windlass.models.http_model import HttpExchange, HttpModel, ServiceOptions
from windlass.models.keys import Auth, Key, has_auth, key_from
from windlass.wires.fields import as_list
from windlass.wires.messages.read_events import PAUSED, AnswerDecoder
from windlass.wires.messages.write_request import (
    BETAS,
    ModelTraits,
    RequestEncoder,
    usual_limit,
)

DEFAULT_BASE_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
MAX_CONTINUATIONS = 20
"""How often a paused turn is continued."""
_OFFICIAL_HOST = re.compile(r"(.+\.)?api\.anthropic\.com")
_UNSUPPORTED = r"(?i)(not |un)support|not (permitted|allowed|available)|deprecated|unexpected"


class AnthropicModel(HttpModel):
    """A model behind `POST {base_url}/v1/messages`; `base_url` is the root, without `/v1`."""

    def __init__(
        self, model: str, *, caching: bool = True, **options: Unpack[ServiceOptions]
    ) -> None:
        """`caching` asks Anthropic to cache the stable beginning of the prompt.

        Raises `ConfigError` if Anthropic's own service is used without a key.
        """
        base_url = options.get("base_url") or os.environ.get("ANTHROPIC_BASE_URL")
        api_key, headers = options.get("api_key"), options.get("headers")
        auth = _auth(api_key, headers)
        super().__init__(f"anthropic/{model}", base_url or DEFAULT_BASE_URL, auth, options)
        self._url = self._http.address("/v1/messages")
        official = _OFFICIAL_HOST.fullmatch(self._http.host) is not None
        if official and not (self._http.secrets or has_auth(headers) or callable(api_key)):
            raise ConfigError("Anthropic needs a key: pass api_key= or set ANTHROPIC_API_KEY")
        self._encoder = RequestEncoder(model, caching=caching)

    @property
    def structured_output(self) -> str:
        """How it supports structured output: Claude 4.5 and later do, also with tools."""
        return "always" if self._encoder.traits.structured_output else "never"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        # Only tools that Anthropic runs can pause a turn.
        hosted = request.extra or any(isinstance(tool, ProviderTool) for tool in request.tools)
        return aclosing(self._continued(request) if hosted else self._turn(request))

    def _turn(self, request: ModelRequest) -> EventBatches:
        limit = usual_limit(request, self._encoder.traits)
        exchange = _MessagesExchange(
            request, self._url, self._http, self._ceiling, self._encoder, limit
        )
        betas = as_list(request.extra.get(BETAS))
        headers = {"anthropic-beta": ",".join(map(str, betas))} if betas else None
        return self._events(exchange, headers)

    async def _continued(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of a turn. While Anthropic pauses it, its content is sent back."""
        usage = Usage()
        calls = 0
        builder = TurnBuilder()
        for attempt in range(MAX_CONTINUATIONS + 1):
            end: TurnEnded | None = None
            offset = calls
            async with aclosing(self._turn(request)) as events:
                async for event in events:
                    match event:
                        case TurnEnded():
                            end = event
                            continue
                        case ToolCallStarted() | ToolCallDelta() | ToolCallEnded():
                            event = replace(event, index=event.index + offset)
                            calls = max(calls, event.index + 1)
                        case _:
                            pass
                    builder.add(event)
                    yield event
            assert end is not None
            usage += end.usage
            end = replace(end, usage=usage)
            if end.detail != PAUSED or calls or attempt == MAX_CONTINUATIONS:
                yield end
                return
            builder.add(end)
            message = builder.turn().message
            # The whole turn so far is one message: it grows with each continuation.
            before = request.messages[:-1] if attempt else request.messages
            request = replace(request, messages=(*before, message))


def _auth(api_key: Key | None, headers: Mapping[str, str] | None) -> Auth:
    """The key as `x-api-key`, or the token of `ANTHROPIC_AUTH_TOKEN` as `Bearer`."""
    named = {name.lower() for name in headers or ()}
    version = {} if "anthropic-version" in named else {"anthropic-version": API_VERSION}
    sent = {**version, **(headers or {})}
    key = key_from(api_key, "ANTHROPIC_API_KEY")
    if key is None and api_key is None:
        token = key_from(None, "ANTHROPIC_AUTH_TOKEN")
        if token is not None:
            return Auth("Authorization", "Bearer ", token, sent)
    return Auth("x-api-key", "", key, sent)


class _MessagesExchange(HttpExchange[RequestEncoder]):
    """One Messages request and its response."""

    _tried: tuple[ModelTraits, ...] = ()
    """The traits that each request so far assumed."""

    def request(self) -> tuple[URL, bytes]:
        self._tried += (self._encoder.traits,)
        return self._url, self._encoder.body(self._request)

    def decoder(self) -> AnswerDecoder:
        return AnswerDecoder(self._http.secrets)

    def adapt(self, problem: ModelError) -> bool:
        """Corrects the assumed traits of the model, for this request and later ones."""
        if problem.status != 400:
            return False
        if self.lowers_limit(problem):
            return True
        traits = corrected(self._tried[-1], problem.message)
        if traits in self._tried:
            return False
        self._encoder.traits = traits
        return True


def corrected(traits: ModelTraits, message: str) -> ModelTraits:
    """The traits after a refusal with this message; the same ones if it is about something else."""
    if not re.search(_UNSUPPORTED, message):
        return traits
    if re.search(r"\b(temperature|top_p|top_k)\b", message) and "both" not in message:
        return replace(traits, sampling=False)
    if re.search(r"(?i)role\W{0,4}.?system|system\W{0,3} role", message):
        return replace(traits, system_turns=False)
    if "disabled" in message:
        return replace(traits, thinking="none")
    if "thinking" in message and traits.thinking == "budget" and "adaptive" in message:
        return replace(traits, thinking="adaptive")
    if "adaptive" in message and traits.thinking == "adaptive":
        return replace(traits, thinking="budget")
    if re.search(r"\b(thinking|effort)\b", message):
        return replace(traits, thinking="none")
    return traits
