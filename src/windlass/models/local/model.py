"""`local/`: the embedded model as a `Model`."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

from msgspec.structs import replace

from windlass.content import FunctionCall, FunctionDeclaration, FunctionResponse, Message
from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest
from windlass.models.keys import Key
from windlass.models.local.catalog import own_file, weights_named
from windlass.models.local.engine import Engine, engine_of
from windlass.models.local.progress import PromptSize
from windlass.models.local.runtime import check_runtime
from windlass.models.local.trim import shortened
from windlass.models.local.weights import (
    OnProgress,
    Progress,
    checked_gguf,
    installed_pieces,
    weights_file,
)
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts
from windlass.wires.chat.read_events import AnswerDecoder
from windlass.wires.chat.write_request import RequestEncoder

__all__ = ["LocalModel"]

log = logging.getLogger("windlass.models.local")

DEFAULT_CONTEXT = 8192
_SMALLEST_CONTEXT = 512
_ANSWER_SHARE = 8
"""One part in so many of the context is kept free for an answer whose length nobody has said."""


class LocalModel:
    """A model in this process: `qwen` (also `default`), `smol`, or the path of a GGUF file.

    All models of one file share its weights, which are loaded by the first request, or by `load`.
    `context` is how many tokens it keeps in mind, prompt and answer together; what an older part
    of a conversation has no room for is left out, and the model and the log are told so.
    """

    function_calling = False
    """These weights follow no tool format of their own: their calls are emulated."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry = DEFAULT_RETRY,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        context: int | None = None,
    ) -> None:
        """Raises `ConfigError` if the runtime or the weights are not there."""
        if any(given is not None for given in (base_url, api_key, headers)):
            raise ConfigError(
                "local/ runs in this process: it has no base_url, api_key or headers;"
                " for a server of your own use openai/ with its base_url"
            )
        self._model, self._context = model, context or _context_from_environment()
        self._limit = self._context  # weights may be made for less
        self._path: Path | None = None
        check_runtime()
        if (own := own_file(model)) is not None:
            self._weights, self._path = None, checked_gguf(own)
        else:
            self._weights = weights_named(model)
            installed_pieces(self._weights)
        self._encoder = RequestEncoder(model, official=False)

    @property
    def name(self) -> str:
        return f"local/{self._model}"

    @property
    def emulation_profile(self) -> str:
        """How this model is best brought to call functions."""
        return self._weights.profile if self._weights else "small"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ModelError` for a request with tools: they are brought to it by emulation."""
        if _is_about_tools(request):
            raise ModelError(
                f"{self.name} does not support tools by itself; use mode='auto' or 'emulated'",
                status=400,
            )
        return aclosing(self._events(request))

    async def load(self, on_progress: OnProgress | None = None) -> None:
        """Prepares and loads the weights, which the first request would do otherwise.

        `on_progress` is called in another thread. Raises `ConfigError` if it cannot be done.
        """
        engine = await self._engine(on_progress)
        if on_progress:
            on_progress(Progress("loading", 0, 1))
        await engine.load()
        if on_progress:
            on_progress(Progress("loading", 1, 1))

    async def warm(self, request: ModelRequest) -> None:
        """Reads the request's prompt ahead: one that begins with the same words waits less.

        Raises `ModelError` if the prompt is too long.
        """
        settings = replace(request.settings, max_tokens=1, response_schema=None)
        async with self.stream(replace(request, settings=settings)) as events:
            async for _ in events:
                pass

    async def aclose(self) -> None:
        """Nothing to give back: the weights stay for the next one. `engine.unload` frees them."""

    def __repr__(self) -> str:
        return f"LocalModel({self._model!r})"

    async def _engine(self, on_progress: OnProgress | None = None) -> Engine:
        if self._path is None:
            assert self._weights is not None
            self._path = await asyncio.to_thread(
                weights_file, self._weights, on_progress=on_progress
            )
        return engine_of(self._path, self._context)

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        engine = await self._engine()
        messages: Sequence[Message] = request.messages
        while True:
            shorter, decoder = None, AnswerDecoder()
            async with aclosing(engine.chunks(self._body(request, messages))) as chunks:
                async for chunk in chunks:
                    shorter = self._shorter(messages, chunk, request)
                    if shorter is not None:
                        break
                    for event in decoder.feed(chunk):
                        yield event
            if shorter is None:
                break
            messages = shorter
        for event in decoder.finish():
            yield event

    def _body(self, request: ModelRequest, messages: Sequence[Message]) -> bytes:
        settings = request.settings
        temperature = 0.0 if settings.temperature is None else settings.temperature
        asked = replace(
            request,
            messages=messages,
            settings=replace(
                settings, max_tokens=self._answer_tokens(request), temperature=temperature
            ),
            extra={"return_progress": True, **request.extra},
            live=True,
        )
        return self._encoder.body(asked)

    def _answer_tokens(self, request: ModelRequest) -> int:
        """A small model may never come to an end by itself."""
        return request.settings.max_tokens or self._limit // _ANSWER_SHARE

    def _shorter(
        self, messages: Sequence[Message], chunk: bytes, request: ModelRequest
    ) -> tuple[Message, ...] | None:
        """Fewer messages, if the chunk says that these leave too little room for an answer.

        Raises `ModelError` if there is nothing to leave out and no room at all.
        """
        size = PromptSize.told_by(chunk)
        self._limit = size.context or self._limit
        room = self._limit - min(self._answer_tokens(request), self._limit // 2)
        if size.tokens <= room:
            return None
        shorter = shortened(messages, size.tokens, room)
        if shorter is not None:
            log.warning(
                "%s has no room for the whole conversation: the %d oldest messages are left out",
                self.name,
                len(messages) - len(shorter),
                extra={"model": self.name, "tokens": size.tokens, "context": self._limit},
            )
        elif size.tokens >= self._limit:
            raise ModelError(
                f"the prompt is too long: it has {size.tokens} tokens, and {self.name} has room"
                f" for {self._limit}; say less, offer fewer tools, or set WINDLASS_LOCAL_CONTEXT",
                status=400,
                code="context_length_exceeded",
            )
        return shorter


def _is_about_tools(request: ModelRequest) -> bool:
    return any(isinstance(tool, FunctionDeclaration) for tool in request.tools) or any(
        isinstance(part, (FunctionCall, FunctionResponse))
        for message in request.messages
        for part in message.parts
    )


def _context_from_environment() -> int:
    text = os.environ.get("WINDLASS_LOCAL_CONTEXT", "").strip()
    if not text:
        return DEFAULT_CONTEXT
    if not (text.isascii() and text.isdigit()) or int(text) < _SMALLEST_CONTEXT:
        raise ConfigError(
            f"WINDLASS_LOCAL_CONTEXT must be a whole number of tokens,"
            f" {_SMALLEST_CONTEXT} or more, not {text!r}"
        )
    return int(text)
