"""`local/`: a language model in this process, and its conversations cut to fit the context."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from itertools import chain
from math import ceil
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.content import (
    FileData,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    InlineData,
    Message,
    Text,
    media_label,
)
from windlass.errors import ConfigError, ModelError
from windlass.events import ModelEvent
from windlass.model import ModelRequest, Preparation
from windlass.models.keys import Key
from windlass.models.local.engine import Engine, check_runtime, engine_of
from windlass.models.local.weights import (
    OnProgress,
    WeightsProgress,
    checked_gguf,
    installed_pieces,
    own_file,
    weights_file,
    weights_named,
)
from windlass.models.retry import DEFAULT_RETRY, DEFAULT_TIMEOUTS, Retry, Timeouts
from windlass.wires.chat.read_events import AnswerDecoder
from windlass.wires.chat.write_request import RequestEncoder

log = logging.getLogger("windlass.models.local")

DEFAULT_CONTEXT = 8192
MIN_CONTEXT = 512
_ANSWER_SHARE = 8
"""Without `max_tokens`, one eighth of the context is reserved for the answer."""


class LocalModel:
    """A model in this process: `qwen` (also `default`), `smol`, or the path of a GGUF file.

    All models of one file share its weights. The first request, or `load`, loads them. `context` is
    the number of tokens for the prompt and the answer. If a conversation does not fit, its oldest
    messages are left out; a notice in the prompt and a log line report it.
    """

    function_calling = False
    """The weights have no reliable tool format: calls are emulated."""

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
        """Raises `ConfigError` if the runtime or the weights are not installed."""
        if any(given is not None for given in (base_url, api_key, headers)):
            raise ConfigError(
                "local/ runs in this process: it has no base_url, api_key or headers;"
                " for your own server use openai/ with its base_url"
            )
        self._model, self._context = model, context or _context_from_environment()
        self._limit = self._context  # the weights may support less
        self._path: Path | None = None
        self._stage = _Stage(WeightsProgress("loading", 0, 1))
        self._ready = False
        self.on_progress: OnProgress | None = None
        """Called during every stage of preparation, in any thread."""
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

    structured_output = "grammar"
    """It can only write JSON of the schema, but does not see the schema."""

    @property
    def emulation_profile(self) -> str:
        """The emulation profile that works best with this model."""
        return self._weights.profile if self._weights else "small"

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Raises `ModelError` for a request with tools: use emulation."""
        if _uses_tools(request):
            raise ModelError(
                f"{self.name} does not support tools natively; use mode='auto' or 'emulated'",
                status=400,
            )
        return aclosing(self._events(request))

    async def load(self, on_progress: OnProgress | None = None) -> None:
        """Prepares and loads the weights before the first request.

        `on_progress` is called in another thread. Raises `ConfigError` if loading fails.
        """
        usual, self.on_progress = self.on_progress, on_progress or self.on_progress
        try:
            engine = await self._engine()
            self._report(WeightsProgress("loading", 0, 1))
            await engine.load()
            self._report(WeightsProgress("loading", 1, 1))
        finally:
            self.on_progress = usual

    async def warm(self, *requests: ModelRequest) -> None:
        """Processes prompts in advance: later prompts with the same beginning are faster.

        They are one preparation, which ends with the last of them. Raises `ModelError` if a prompt
        is too long, and `ConfigError` if loading fails.
        """
        self._ready = False
        try:
            await self._read_in_advance(requests)
        finally:
            self._ready = True  # a preparation that failed is over too; a request reports why

    async def _read_in_advance(self, requests: Sequence[ModelRequest]) -> None:
        if not (await self._engine()).is_loaded:
            await self.load()
        prompts = _Prompts(requests)

        def report(size: PromptSize) -> None:
            if size.tokens:
                self._report(prompts.progress(size))

        for request in requests:
            settings = replace(request.settings, max_tokens=1, response_schema=None)
            asked = replace(request, settings=settings)
            async with aclosing(self._events(asked, report)) as events:
                async for _ in events:
                    pass
            prompts.begin_next()

    @property
    def preparation(self) -> Preparation | None:
        """What the model does before it can answer; None when it is ready."""
        return None if self._ready else self._stage.preparation()

    def _report(self, progress: WeightsProgress) -> None:
        """Called in any thread."""
        last = self._stage.progress
        if progress.stage != last.stage or progress.done < last.done:
            self._stage = _Stage(progress)
        self._stage.update(progress)
        if self.on_progress:
            self.on_progress(progress)

    async def aclose(self) -> None:
        """Does nothing: the weights stay loaded for other models. `engine.unload` frees them."""

    def __repr__(self) -> str:
        return f"LocalModel({self._model!r})"

    async def _engine(self) -> Engine:
        if self._path is None:
            assert self._weights is not None
            self._path = await asyncio.to_thread(
                weights_file, self._weights, on_progress=self._report
            )
        return engine_of(self._path, self._context)

    async def _events(
        self, request: ModelRequest, on_size: "Callable[[PromptSize], None] | None" = None
    ) -> AsyncGenerator[ModelEvent, None]:
        engine = await self._engine()
        messages: Sequence[Message] = [_as_text(message) for message in request.messages]
        while True:
            shorter, decoder = None, AnswerDecoder()
            async with aclosing(engine.chunks(self._body(request, messages))) as chunks:
                async for chunk in chunks:
                    size = PromptSize.from_chunk(chunk)
                    if on_size:
                        on_size(size)
                    shorter = self._shorter(messages, size, request)
                    if shorter is not None:
                        break
                    for event in decoder.feed(chunk):
                        self._ready = self._ready or on_size is None
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
        """Always a limit: a small model may never stop."""
        return request.settings.max_tokens or self._limit // _ANSWER_SHARE

    def _shorter(
        self, messages: Sequence[Message], size: "PromptSize", request: ModelRequest
    ) -> tuple[Message, ...] | None:
        """Fewer messages, if this size leaves too little room for an answer; otherwise None.

        Raises `ModelError` if no message can be dropped and the prompt does not fit.
        """
        self._limit = size.context or self._limit
        room = self._limit - min(self._answer_tokens(request), self._limit // 2)
        if size.tokens <= room:
            return None
        shorter = shortened(messages, size.tokens, room)
        if shorter is not None:
            log.warning(
                "the conversation is too long for %s: leaving out the %d oldest messages",
                self.name,
                len(messages) - len(shorter),
                extra={"model": self.name, "tokens": size.tokens, "context": self._limit},
            )
        elif size.tokens >= self._limit:
            raise ModelError(
                f"the prompt is too long: it has {size.tokens} tokens, and {self.name} has room"
                f" for {self._limit}; shorten it, offer fewer tools, or set WINDLASS_LOCAL_CONTEXT",
                status=400,
                code="context_length_exceeded",
            )
        return shorter


def _uses_tools(request: ModelRequest) -> bool:
    return any(isinstance(tool, FunctionDeclaration) for tool in request.tools) or any(
        isinstance(part, (FunctionCall, FunctionResponse))
        for message in request.messages
        for part in message.parts
    )


def _as_text(message: Message) -> Message:
    """Results of tools with a label in place of their media: the model reads only text."""
    media = [part for part in message.parts if isinstance(part, InlineData | FileData)]
    if not media or not message.extra.get("windlass", {}).get("results"):
        return message
    labels = [label for label in map(media_label, media) if label not in message.text]
    text = "\n".join((message.text, *labels))
    others = (part for part in message.parts if not isinstance(part, Text | InlineData | FileData))
    return Message(message.role, (Text(text), *others), message.extra)


def _context_from_environment() -> int:
    text = os.environ.get("WINDLASS_LOCAL_CONTEXT", "").strip()
    if not text:
        return DEFAULT_CONTEXT
    if not (text.isascii() and text.isdigit()) or int(text) < MIN_CONTEXT:
        raise ConfigError(
            f"WINDLASS_LOCAL_CONTEXT must be a whole number of tokens,"
            f" {MIN_CONTEXT} or more, not {text!r}"
        )
    return int(text)


class _Stage:
    """A stage of preparation: its last progress, and when it began."""

    def __init__(self, progress: WeightsProgress) -> None:
        self.progress, self._first = progress, progress.done
        self._began = self._updated = time.monotonic()

    def update(self, progress: WeightsProgress) -> None:
        self.progress, self._updated = progress, time.monotonic()

    def preparation(self) -> Preparation:
        """Expects the rest to take as long, for its size, as the stage took so far.

        The estimate counts down between two reports of progress.
        """
        progress = self.progress
        stage = "reading" if progress.stage == "reading" else "loading"
        done, rest = progress.done - self._first, progress.total - progress.done
        if done <= 0:
            return Preparation(stage)
        expected = (self._updated - self._began) * rest / done
        left = ceil(expected - (time.monotonic() - self._updated))
        return Preparation(stage, max(left, 1 if rest else 0))


class _Prompts:
    """How far several prompts are read, in tokens.

    The tokens of a prompt are known when the model begins to read it. Later prompts are expected to
    have as many tokens for their length.
    """

    def __init__(self, requests: Sequence[ModelRequest]) -> None:
        self._lengths = [
            sum(len(message.text) for message in request.messages) or 1 for request in requests
        ]
        self._read = self._tokens = 0

    def progress(self, size: "PromptSize") -> WeightsProgress:
        self._tokens = size.tokens
        length, *later = self._lengths
        expected = size.tokens * (length + sum(later)) // length
        return WeightsProgress(
            "reading", self._read + min(size.read, size.tokens), self._read + expected
        )

    def begin_next(self) -> None:
        self._read += self._tokens
        self._lengths = self._lengths[1:]


class PromptSize(Struct, frozen=True):
    """The prompt's size, what is read of it, and the model's context, in tokens; 0 is unknown."""

    tokens: int = 0
    context: int = 0
    read: int = 0

    @classmethod
    def from_chunk(cls, chunk: bytes) -> "PromptSize":
        """Reads a chunk: progress reports and refusals for length contain the size."""
        read = _decode(chunk)
        if read.error is not None:
            return cls(read.error.n_prompt_tokens, read.error.n_ctx)
        progress = read.prompt_progress
        return cls(progress.total, read=progress.processed) if progress else cls()


class _PromptProgress(Struct):
    total: int = 0
    processed: int = 0


class _RuntimeRefusal(Struct):
    n_prompt_tokens: int = 0
    n_ctx: int = 0


class _RuntimeChunk(Struct):
    prompt_progress: _PromptProgress | None = None
    error: _RuntimeRefusal | None = None


_decode = msgspec.json.Decoder(_RuntimeChunk).decode


NOTICE = "(Earlier messages were left out here: there was no room for them.)"
_STEPS_PER_ROOM = 4


def shortened(messages: Sequence[Message], tokens: int, room: int) -> tuple[Message, ...] | None:
    """The messages without the oldest ones, so that about `room` of `tokens` remain. Pure.

    The system message and the last question with its last step always stay. Older exchanges are
    dropped first, then earlier steps of the last exchange; a call never loses its result. It drops
    in steps of a quarter of the room, more than necessary, so that the next prompts start with the
    same text, which the runtime has cached. None if there is nothing to drop.
    """
    step = max(1, room // _STEPS_PER_ROOM)
    excess = ceil((tokens - room) / step) * step
    per_byte = tokens / max(1, sum(map(_size, messages)))
    head, units = _units(messages)
    kept, left_out = list(units), 0.0
    while left_out < excess and (index := _first_droppable(kept)) is not None:
        left_out += per_byte * sum(map(_size, kept.pop(index).messages))
    if len(kept) == len(units):
        return None
    return (*head, *_with_notice(list(chain.from_iterable(unit.messages for unit in kept))))


class _Unit:
    """Messages that are kept or dropped together."""

    def __init__(self, first: Message, *, stays: bool = False) -> None:
        self.messages, self.stays = [first], stays


def _units(messages: Sequence[Message]) -> tuple[list[Message], list[_Unit]]:
    head = 0
    while head < len(messages) and messages[head].role == "system":
        head += 1
    rest = messages[head:]
    questions = [index for index, message in enumerate(rest) if _is_question(message)]
    last = questions[-1] if questions else 0
    units: list[_Unit] = []
    for index, message in enumerate(rest):
        if index == last:
            units.append(_Unit(message, stays=True))
        elif not units or _begins_unit(message, in_last=index > last):
            units.append(_Unit(message))
        else:
            units[-1].messages.append(message)
    if units:
        units[-1].stays = True
    return list(messages[:head]), units


def _begins_unit(message: Message, *, in_last: bool) -> bool:
    return message.role == "assistant" if in_last else _is_question(message)


def _is_question(message: Message) -> bool:
    """Whether the user wrote it. Emulated tool results also have the role `user`."""
    return message.role == "user" and not message.extra.get("windlass", {}).get("results")


def _first_droppable(units: list[_Unit]) -> int | None:
    return next((index for index, unit in enumerate(units) if not unit.stays), None)


def _with_notice(messages: list[Message]) -> list[Message]:
    """Adds the notice to the first message if it is the user's, because roles must alternate."""
    first = messages[0]
    if first.role != "user":
        return [Message.user(NOTICE), *messages]
    text = f"{NOTICE}\n\n{first.text}"
    others = (part for part in first.parts if not isinstance(part, Text))
    return [Message("user", (Text(text), *others), first.extra), *messages[1:]]


def _size(message: Message) -> int:
    return len(message.text.encode("utf-8", "replace"))
