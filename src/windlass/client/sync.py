"""`Client`: the blocking form of `AsyncClient`. It runs everything on the portal's event loop."""

import atexit
import functools
import queue
import weakref
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, overload

from windlass.client.asynchronous import AsyncClient, decided
from windlass.client.chat import AsyncChat, ChatRecord
from windlass.client.options import ClientOptions, Prompt, RunOptions
from windlass.client.portal import close_at_exit, close_when_idle, portal
from windlass.client.request import CallOptions, JsonSchema, OutputForm, SendOptions, client_request
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.events import Phase, RunEvent, StopReason, TextDelta, event_to_sse
from windlass.loop.output import OutputValidator
from windlass.model import Model
from windlass.reply import OutputT, Reply
from windlass.runs.control import StoredRun
from windlass.runs.run import AsyncRun

T = TypeVar("T")


class Client:
    """A client of one model for sync code, threads and notebooks. `AsyncClient` has the details.

    Use it with `with`, or call `close`. The garbage collector closes a client that is not closed.
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
        """Stops the active runs and closes the log and the connections."""
        portal().run(self._client.aclose())

    def clear_cache(self) -> int:
        """Clears the model's cache of function declarations; returns how many entries it had.

        Only models of the AI Studio page have such a cache. It is 0 for all others.
        """
        return portal().run(self._client.clear_cache())

    @property
    def model(self) -> Model:
        """The model of the client's runs."""
        return self._client.model

    @overload
    def generate(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> Reply[None]: ...

    @overload
    def generate(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> Reply[T]: ...

    @overload
    def generate(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> Reply[Any]: ...

    def generate(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> Reply[Any]:
        """Sends the prompt, runs the tools that the model calls, and returns the reply."""
        return portal().run(self._client.answer(client_request(prompt, output, options)))

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> "Stream[None]": ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> "Stream[T]": ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> "Stream[Any]": ...

    def stream(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> "Stream[Any]":
        """Does the same as a stream of events, for `with`. Leaving it early stops the run."""
        return Stream(self._client.stream(prompt, output=output, **options))

    @overload
    def start(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> "Run[None]": ...

    @overload
    def start(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> "Run[T]": ...

    @overload
    def start(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> "Run[Any]": ...

    def start(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> "Run[Any]":
        """Starts a run in the background."""
        return Run(portal().run(self._client.start(prompt, output=output, **options)), self)

    def subscribe(self, run_id: str, after: int = 0) -> Iterator[RunEvent]:
        """Follows the run's events after number `after`, both past and future ones."""
        return _events(portal().run(self._client.run(run_id)), after)

    def resume(
        self,
        *,
        tools: Iterable[Any] | None = None,
        outputs: Iterable[Any] = (),
        output_validator: OutputValidator | None = None,
    ) -> "list[Run]":
        """Resumes the interrupted runs of this model: their processes have exited."""
        resuming = self._client.resume(
            tools=tools, outputs=outputs, output_validator=output_validator
        )
        return [Run(run, self) for run in portal().run(resuming)]

    def stop(self, run_id: str) -> None:
        """Stops a run, if it has not ended."""
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
        """Decides about a call that waits for approval."""
        return portal().run(
            self._client.approve(run_id, call_id, approved, arguments=arguments, reason=reason)
        )

    def runs(self) -> "list[Run]":
        """Returns the active and the stored finished runs, oldest first."""
        return [Run(run, self) for run in portal().run(self._client.runs())]

    def chat(
        self,
        *,
        id: str | None = None,
        tools: Iterable[Any] | None = None,
        messages: Prompt = (),
        **options: Unpack[RunOptions],
    ) -> "Chat":
        """Starts a chat. With the `id` of one of `chats()`, continues that chat."""
        return Chat(self._client.chat(id=id, tools=tools, messages=messages, **options))

    def chats(self) -> list[ChatRecord]:
        """Returns the chats in the log, the last used first; without a log, those in memory."""
        return portal().run(self._client.chats())

    def execute(
        self,
        calls: Sequence[FunctionCall],
        *,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> tuple[FunctionResponse, ...]:
        """Runs calls manually. Returns one response for each, in call order."""
        return portal().run(self._client.execute(calls, tools=tools, **options))


class Stream(Generic[OutputT]):
    """The live events of a run, as an iterator."""

    def __init__(self, stream: AsyncStream[OutputT]) -> None:
        self._stream = stream
        self._events: Iterator[RunEvent] = iter(())

    def __enter__(self) -> "Stream[OutputT]":
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

    def __iter__(self) -> "Stream[OutputT]":
        return self

    def __next__(self) -> RunEvent:
        try:
            return next(self._events)
        except StopIteration:
            portal().run(self._stream.run.result())
            raise

    def text_deltas(self) -> Iterator[str]:
        """Yields only the text deltas."""
        for event in self:
            if type(event) is TextDelta and event.text:
                yield event.text

    def partial_outputs(self) -> Iterator[OutputT]:
        """Yields the value of a run with `output=` while it is written; at last, the whole value.

        Fields that are not written yet are None. Raises the run's error.
        """
        reader = self._stream.partial_reader()
        for event in self:
            yield from reader.read(event)
        yield from reader.finish(self.reply)

    def sse(self) -> Iterator[str]:
        """Yields each event as a server-sent event, for a `text/event-stream` response.

        Works without `with`. It does not raise the run's error: the last event, `run_ended`,
        reports it.
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
    def reply(self) -> Reply[OutputT]:
        """The reply. Waits for the end of the run, and raises the run's error."""
        return portal().run(self._stream.run.result())

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for approval."""
        return Run(self._stream.run).approve(call_id, approved, arguments=arguments, reason=reason)


class Run(Generic[OutputT]):
    """A run in the background. It holds its client, which so is not garbage collected."""

    def __init__(self, run: AsyncRun[OutputT] | StoredRun, client: Client | None = None) -> None:
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
        """Why the run ended; None while it is running."""
        return self._run.stop_reason

    def result(self) -> Reply[OutputT]:
        """Waits for the end of the run. Raises the run's error."""
        return portal().run(self._run.result())

    def stop(self) -> None:
        """Stops the run now."""
        portal().run(self._run.stop())

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for approval."""
        deciding = decided(self._run, call_id, approved, arguments=arguments, reason=reason)
        return portal().run(deciding)


class Chat:
    """A conversation of many runs."""

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

    @overload
    def send(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[SendOptions]
    ) -> Reply[None]: ...

    @overload
    def send(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[SendOptions]
    ) -> Reply[T]: ...

    @overload
    def send(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[SendOptions]
    ) -> Reply[Any]: ...

    def send(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[SendOptions]
    ) -> Reply[Any]:
        """Sends a prompt and returns the reply. Without a prompt, sends what was added."""
        return portal().run(self._chat.send(prompt, output=output, **options))

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[SendOptions]
    ) -> Stream[None]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[SendOptions]
    ) -> Stream[T]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[SendOptions]
    ) -> Stream[Any]: ...

    def stream(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[SendOptions]
    ) -> Stream[Any]:
        """Does the same as `send`, as a stream."""
        return Stream(self._chat.stream(prompt, output=output, **options))


def _events(run: AsyncRun | StoredRun, after: int) -> Iterator[RunEvent]:
    """Yields the run's events in this thread. The queue is unbounded, so that a slow reader does
    not slow the run."""
    if isinstance(run, StoredRun):
        yield from _stored_events(run, after)
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


def _stored_events(run: StoredRun, after: int) -> Iterator[RunEvent]:
    follower = run.events(after)
    while not follower.over:
        yield from portal().run(follower.some(60.0))


_open_clients: weakref.WeakSet[AsyncClient] = weakref.WeakSet()


@functools.cache
def _close_clients_at_exit() -> None:
    """Closes open clients at exit. Registered after the first finalizer, so that it runs before all
    finalizers, which would close the connections of active runs."""
    atexit.register(lambda: close_at_exit([client.aclose for client in _open_clients]))
