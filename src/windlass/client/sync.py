"""`Client`: the same verbs without `await`. Each hands its work to the portal's event loop."""

import atexit
import functools
import queue
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Unpack

from windlass.client.asynchronous import AsyncClient
from windlass.client.chat import AsyncChat
from windlass.client.chats import ChatRecord
from windlass.client.images import Image
from windlass.client.kept import KeptRun
from windlass.client.options import ClientOptions, Prompt, RunOptions
from windlass.client.portal import close_at_exit, close_when_idle, portal
from windlass.client.run import AsyncRun
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.events import Phase, RunEvent, StopReason, TextDelta, event_to_sse
from windlass.model import Model
from windlass.reply import Reply

__all__ = ["Chat", "Client", "Run", "Stream"]


class Client:
    """Drives one model from sync code, threads and notebooks. See `AsyncClient` for the verbs.

    Use it as `with`, or `close()` it; a forgotten one is closed when it is collected.
    """

    def __init__(self, model: str | Model, **options: Unpack[ClientOptions]) -> None:
        self._client = AsyncClient(model, **options)
        _open_clients.add(self._client)
        weakref.finalize(self, close_when_idle, self._client.aclose).atexit = False
        _close_clients_at_exit()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the runs that still go and gives back the connections."""
        portal().run(self._client.aclose())

    @property
    def model(self) -> Model:
        return self._client.model

    def generate(
        self,
        prompt: Prompt = (),
        *,
        images: Sequence[Image] | None = None,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> Reply:
        """Asks, runs the tools that the model asks for, and returns its answer."""
        return portal().run(self._client.generate(prompt, images=images, tools=tools, **options))

    def stream(
        self,
        prompt: Prompt = (),
        *,
        images: Sequence[Image] | None = None,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> "Stream":
        """The same, as `with` a stream of events. Leaving it early stops the run."""
        return Stream(self._client.stream(prompt, images=images, tools=tools, **options))

    def start(
        self,
        prompt: Prompt = (),
        *,
        images: Sequence[Image] | None = None,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> "Run":
        """Starts a run that goes on by itself."""
        starting = self._client.start(prompt, images=images, tools=tools, **options)
        return Run(portal().run(starting), self)

    def subscribe(self, run_id: str, after: int = 0) -> Iterator[RunEvent]:
        """The run's events after number `after`, then each as it comes."""

        return _events(portal().run(self._client.run(run_id)), after)

    def resume(self, *, tools: Iterable[Any] | None = None) -> "list[Run]":
        """Goes on with the runs of this model that a process left open when it ended."""
        return [Run(run, self) for run in portal().run(self._client.resume(tools=tools))]

    def stop(self, run_id: str) -> None:
        """Stops a run; one that has ended stays as it is."""
        portal().run(self._client.stop(run_id))

    def approve(
        self,
        run_id: str,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for it."""
        return portal().run(
            self._client.approve(run_id, call_id, approved, arguments=arguments, reason=reason)
        )

    def runs(self) -> "list[Run]":
        """The runs that go, and the finished ones that are still kept."""
        return [Run(run, self) for run in portal().run(self._client.runs())]

    def chat(
        self,
        *,
        id: str | None = None,
        tools: Iterable[Any] | None = None,
        messages: Prompt = (),
        **options: Unpack[RunOptions],
    ) -> "Chat":
        """A conversation that remembers. The `id` of one of `chats()` continues it."""
        return Chat(self._client.chat(id=id, tools=tools, messages=messages, **options))

    def chats(self) -> list[ChatRecord]:
        """The chats that the log keeps, the last used first; without a log, those still held."""
        return portal().run(self._client.chats())

    def execute(
        self,
        calls: Sequence[FunctionCall],
        *,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> tuple[FunctionResponse, ...]:
        """Runs calls by hand: each gets one response, in call order."""
        return portal().run(self._client.execute(calls, tools=tools, **options))


class Stream:
    """The events of a run, live, as a plain iterator."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = stream
        self._events: Iterator[RunEvent] = iter(())

    def __enter__(self) -> "Stream":
        portal().run(self._stream.__aenter__())
        self._events = _events(self._stream.run, 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        portal().run(self._stream.__aexit__(kind, error, trace))

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> RunEvent:
        try:
            return next(self._events)
        except StopIteration:
            portal().run(self._stream.run.result())
            raise

    def text_deltas(self) -> Iterator[str]:
        """The text alone, as it comes."""
        for event in self:
            if type(event) is TextDelta and event.text:
                yield event.text

    def sse(self) -> Iterator[str]:
        """Each event as a server-sent event, to be sent as `text/event-stream`.

        A stream that was not entered is entered for it. What the run fails with is not raised: its
        last event, `run_ended`, reports it.
        """
        if not self._stream.entered:
            with self:
                yield from map(event_to_sse, self._events)
        else:
            yield from map(event_to_sse, self._events)

    @property
    def run_id(self) -> str:
        return self._stream.run_id

    @property
    def phase(self) -> Phase:
        return self._stream.phase

    @property
    def reply(self) -> Reply:
        """The reply; waits for the run's end. Raises what the run failed with."""
        return portal().run(self._stream.run.result())

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for it."""
        return Run(self._stream.run).approve(call_id, approved, arguments=arguments, reason=reason)


class Run:
    """A run that goes by itself. As long as it is held, its client is not closed for it."""

    def __init__(self, run: AsyncRun | KeptRun, client: Client | None = None) -> None:
        self._run = run
        self._client = client

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def phase(self) -> Phase:
        return self._run.phase

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended; None while it goes."""
        return self._run.stop_reason

    def result(self) -> Reply:
        """Waits for the end. Raises what the run failed with."""
        return portal().run(self._run.result())

    def stop(self) -> None:
        """Ends the run now."""
        portal().run(self._run.stop())

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for it."""

        async def decide() -> bool:
            run = self._run
            if isinstance(run, KeptRun):
                return await run.approve(call_id, approved, arguments=arguments, reason=reason)
            done = run.approve(call_id, approved, arguments=arguments, reason=reason)
            await run.settled()
            return done

        return portal().run(decide())


class Chat:
    """A conversation that remembers."""

    def __init__(self, chat: AsyncChat) -> None:
        self._chat = chat

    @property
    def id(self) -> str:
        return self._chat.id

    @property
    def messages(self) -> tuple[Message, ...]:
        portal().run(self._chat.load())
        return self._chat.messages

    def add(self, item: Prompt, role: str | None = None) -> "Chat":
        """Adds to the conversation without asking the model, and returns the chat."""
        portal().run(self._chat.add(item, role))
        return self

    def send(self, prompt: Prompt = (), *, images: Sequence[Image] | None = None) -> Reply:
        """Says something and returns the answer; without a prompt, answers what was added."""
        return portal().run(self._chat.send(prompt, images=images))

    def stream(self, prompt: Prompt = (), *, images: Sequence[Image] | None = None) -> Stream:
        """The same, as a stream."""
        return Stream(self._chat.stream(prompt, images=images))


def _events(run: AsyncRun | KeptRun, after: int) -> Iterator[RunEvent]:
    """The run's events in this thread. A slow reader does not slow the run: the queue takes all."""
    if isinstance(run, KeptRun):
        yield from _kept_events(run, after)
        return
    log = run.log
    arrived: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
    ends: list[Any] = []
    portal().call_soon(
        lambda: ends.append(log.listen(arrived.put, after, on_close=lambda: arrived.put(None)))
    )
    try:
        while (event := arrived.get()) is not None:
            yield event
            if event.done:
                return
        if log.failure is not None:
            raise log.failure
    finally:
        portal().call_soon(lambda: ends[0]())


def _kept_events(run: KeptRun, after: int) -> Iterator[RunEvent]:
    follower = run.events(after)
    while not follower.over:
        yield from portal().run(follower.some(60.0))


_open_clients: weakref.WeakSet[AsyncClient] = weakref.WeakSet()


@functools.cache
def _close_clients_at_exit() -> None:
    """Registered after the first finalizer, and therefore called before all finalizers: they would
    take the connections away from runs that are still active."""
    atexit.register(lambda: close_at_exit([client.aclose for client in _open_clients]))
