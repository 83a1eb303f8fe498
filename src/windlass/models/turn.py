"""One model turn over HTTP, on any wire: attempts, streams, whole bodies, events."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from yarl import URL

from windlass.content import Usage
from windlass.errors import ModelError, clear_frames
from windlass.events import ModelEvent, TextDelta, TurnEnded
from windlass.jsontext import LARGE, by_size, offloaded
from windlass.model import EventBatches
from windlass.models.http import Http, Response, cut
from windlass.models.http1 import HttpError
from windlass.models.retry import Waiting
from windlass.wires.sse import SseDecoder
from windlass.wires.text_frames import TextFrame

_NO_USAGE = Usage()


class TurnDecoder(Protocol):
    """Decodes a wire's response into events."""

    @property
    def done(self) -> bool:
        """Whether the stream has ended explicitly."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the turn is complete. More payloads, such as usage, can follow."""
        ...

    @property
    def usage(self) -> Usage:
        """The tokens that the service has reported so far."""
        ...

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one streamed payload."""
        ...

    def feed_body(self, body: bytes) -> list[ModelEvent]:
        """The events of a response that is one body."""
        ...

    def finish(self) -> list[ModelEvent]:
        """The last events; the very last is `TurnEnded`. Raises `StreamCut` for a partial turn."""
        ...


class WireExchange(Protocol):
    """The request of one turn on a wire, and the decoder of its response."""

    @property
    def size(self) -> int:
        """The approximate size of the request in characters."""
        ...

    def request(self) -> tuple[URL, bytes]:
        """The address and the body of the request; called for every attempt."""
        ...

    def decoder(self) -> TurnDecoder: ...

    def adapt(self, problem: ModelError) -> bool:
        """Changes the request after an error, if possible. True means: retry at once."""
        ...


def turn_events(
    http: Http,
    exchange: WireExchange,
    waiting: Waiting,
    headers: Mapping[str, str] | None = None,
) -> EventBatches:
    """The events of one turn. A failed attempt is retried only if it yielded no event.

    `headers` are sent with this turn's requests only. The usage of failed attempts is added to that
    of the turn, or of the error that ends it.
    """
    return EventBatches(_batches(http, exchange, waiting, headers))


async def _batches(
    http: Http, exchange: WireExchange, waiting: Waiting, headers: Mapping[str, str] | None
) -> AsyncGenerator[list[ModelEvent], None]:
    """The events of each read, together. One flat generator, because it runs for every read."""
    wasted, malformed = _NO_USAGE, False
    while True:
        yielded = complete = False
        decoder: TurnDecoder | None = None
        try:
            url, body = await by_size(exchange.size, exchange.request)
            response = await http.post(url, body, headers)
            try:
                decoder = exchange.decoder()
                source = _Payloads(response, decoder)
                batch: list[ModelEvent] = []
                try:
                    while (payloads := await source.payloads()) is not None:
                        read = source.decode(payloads, batch)
                        while read < len(payloads):
                            if batch:
                                yielded = True
                                yield batch
                                batch = []
                            batch = await offloaded(source.feed, payloads[read])
                            read = source.decode(payloads, batch, read + 1)
                        if batch and not source.over:
                            yielded = True
                            yield batch
                            batch = []
                    events = decoder.finish()
                except ModelError:
                    if batch:  # what came before the error is part of the turn
                        yielded = True
                        yield batch
                    raise
                complete = True
                end = events[-1]
                assert isinstance(end, TurnEnded)
                # The provider could not parse its own model's call: retry once.
                has_events = yielded or bool(batch)
                if end.finish == "malformed_call" and not has_events and not malformed:
                    wasted, malformed = wasted + end.usage, True
                    continue
                if wasted is not _NO_USAGE:
                    events[-1] = msgspec.structs.replace(end, usage=wasted + end.usage)
                yielded = True
                yield batch + events
                return
            finally:
                await http.release(response, complete=complete)
        except ModelError as problem:
            if decoder is not None and (reported := decoder.usage) != _NO_USAGE:
                wasted += reported
            if wasted is not _NO_USAGE:
                problem.usage = wasted
            if yielded:
                raise
            if not exchange.adapt(problem):
                await waiting.after(problem)


class _Payloads:
    """An HTTP response as payloads: the events of a stream, or one body."""

    __slots__ = ("_decoder", "_frame", "_response", "_sse", "feed", "over")

    def __init__(self, response: Response, decoder: TurnDecoder) -> None:
        self._response, self._decoder = response, decoder
        self._sse: SseDecoder | None = None  # set when the response is a stream
        self._frame = TextFrame()
        self.over = False
        """Whether the last payloads were returned."""
        self.feed: Callable[[bytes], list[ModelEvent]] = decoder.feed

    async def payloads(self) -> list[bytes] | None:
        """The next payloads, for `feed`; None at the end."""
        if self.over or self._decoder.done:
            return None
        sse = self._sse
        try:
            if sse is None:
                return await self._first()
            chunk = await self._response.read()
        except HttpError as error:
            # After the end of the turn, a lost connection is harmless.
            clear_frames(error)
            if sse is None or not self._decoder.finished:
                # Without its traceback: this frame holds the response, which holds the error.
                raise cut(error) from error.with_traceback(None)
            chunk = b""
        if chunk:
            return sse.feed(chunk)
        self.over = True
        return sse.finish()

    def decode(self, payloads: Sequence[bytes], events: list[ModelEvent], place: int = 0) -> int:
        """Adds the events of the payloads from `place` on. Returns the place of a large one.

        Decoding a large payload would block the event loop. Without one, returns their number.
        """
        frame, feed = self._frame, self.feed
        if self._sse is None and not place and len(payloads[0]) <= LARGE:  # one body
            events += feed(payloads[0])
            return 1
        while place < len(payloads):
            if texts := frame.texts(payloads, place):
                events += map(TextDelta, filter(None, texts))
                place += len(texts)
                continue
            payload = payloads[place]
            if len(payload) > LARGE:
                frame.forget()
                break
            found = feed(payload)
            frame.learn(payload, found)
            events += found
            place += 1
        return place

    async def _first(self) -> list[bytes]:
        """The first payloads. A server can use the other form, or a wrong `Content-Type`."""
        label = self._response.headers.get(b"content-type", b"").lower()
        first = b""
        if not label.startswith(b"text/event-stream"):
            first = await self._response.read()
            if b"json" in label or first.lstrip()[:1] in (b"{", b"[", b"<"):
                self.over = True
                self.feed = self._decoder.feed_body
                return [first + await self._response.rest()]
        self._sse = SseDecoder()
        return self._sse.feed(first)
