"""One turn over HTTP, from the request to its last event: attempts, streams, bodies; any wire."""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import msgspec
from yarl import URL

from windlass.content import Usage
from windlass.errors import ModelError, clear_frames
from windlass.events import ModelEvent, TurnEnded
from windlass.jsontext import LARGE, by_size, offloaded
from windlass.models.http import TRANSPORT_ERRORS, Http, Response, cut
from windlass.models.retry import Waiting
from windlass.wires.sse import SseDecoder


class TurnDecoder(Protocol):
    """A wire's answer, piece by piece into events."""

    @property
    def done(self) -> bool:
        """Whether the stream has said that nothing follows."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the turn is known to be whole, though more (usage) may follow."""
        ...

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one streamed payload."""
        ...

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of an answer that came as one body."""
        ...

    def finish(self) -> list[ModelEvent]:
        """The last events, `TurnEnded` last. Raises `StreamCut` if the turn is not whole."""
        ...


class WireExchange(Protocol):
    """What a wire says in one turn."""

    @property
    def size(self) -> int:
        """Characters, about, of the request."""
        ...

    def request(self) -> tuple[URL, bytes]:
        """Where the request goes and its body; asked again for every attempt."""
        ...

    def decoder(self) -> TurnDecoder: ...

    def adapt(self, problem: ModelError) -> bool:
        """Whether `problem` taught how to say it better: then it is asked again at once."""
        ...


async def turn_events(
    http: Http, exchange: WireExchange, waiting: Waiting
) -> AsyncGenerator[ModelEvent, None]:
    """The events of one turn. A failed attempt is repeated only while nothing has been yielded.

    One flat generator, because it runs once per token.
    """
    wasted: Usage | None = None
    while True:
        said = complete = False
        try:
            url, body = await by_size(exchange.size, exchange.request)
            response = await http.post(url, body)
            try:
                decoder = exchange.decoder()
                answer = _Answer(response, decoder)
                while (payloads := await answer.payloads()) is not None:
                    for payload in payloads:
                        is_large = len(payload) > LARGE
                        found = await offloaded(answer.feed, payload) if is_large else None
                        for event in answer.feed(payload) if found is None else found:
                            said = True
                            yield event
                events = decoder.finish()
                complete = True
                end = events[-1]
                assert isinstance(end, TurnEnded)
                # The provider could not read its own model's call: worth one more try.
                if end.finish == "malformed_call" and not said and wasted is None:
                    wasted = end.usage
                    continue
                if wasted is not None:
                    events[-1] = msgspec.structs.replace(end, usage=wasted + end.usage)
                for event in events:
                    said = True
                    yield event
                return
            finally:
                await http.release(response, complete=complete)
        except ModelError as problem:
            if said:
                raise
            if not exchange.adapt(problem):
                await waiting.after(problem)


class _Answer:
    """An HTTP answer as payloads: the events of a stream, or one whole body."""

    __slots__ = ("_decoder", "_over", "_response", "_sse", "feed")

    def __init__(self, response: Response, decoder: TurnDecoder) -> None:
        self._response, self._decoder = response, decoder
        self._sse: SseDecoder | None = None  # until the answer is known to be a stream
        self._over = False
        self.feed: Callable[[bytes], list[ModelEvent]] = decoder.feed

    async def payloads(self) -> list[bytes] | None:
        """The next payloads, for `feed`; None at the end."""
        if self._over or self._decoder.done:
            return None
        sse = self._sse
        try:
            if sse is None:
                return await self._first()
            chunk = await self._response.content.readany()
        except TRANSPORT_ERRORS as error:
            # A break after the turn's end is only a careless server.
            clear_frames(error)
            if sse is None or not self._decoder.finished:
                # Without its traceback: this frame holds the response, which holds the error.
                raise cut(error) from error.with_traceback(None)
            chunk = b""
        if chunk:
            return sse.feed(chunk)
        self._over = True
        return sse.finish()

    async def _first(self) -> list[bytes]:
        """The server may answer in the form that was not asked for, and may label it badly."""
        label = self._response.headers.get("Content-Type", "").lower()
        first = b""
        if not label.startswith("text/event-stream"):
            first = await self._response.content.readany()
            if "json" in label or first.lstrip()[:1] in (b"{", b"[", b"<"):
                self._over = True
                self.feed = self._decoder.feed_body
                return [first + await self._response.content.read()]
        self._sse = SseDecoder()
        return self._sse.feed(first)
