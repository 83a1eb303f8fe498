"""`AsyncStream`: the live events of a run, for `async with`."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from windlass.errors import ConfigError, WindlassError
from windlass.events import Phase, RunEvent, TextDelta, event_to_sse
from windlass.reply import OutputT, Reply
from windlass.runs.event_log import Follower
from windlass.runs.run import AsyncRun

if TYPE_CHECKING:
    from windlass.output.partial import PartialReader
    from windlass.output.value import OutputType


class AsyncStream(Generic[OutputT]):
    """The live events of a run. After the last event, iteration raises the run's error, if any."""

    def __init__(
        self,
        start: Callable[[], Awaitable[AsyncRun[OutputT]]],
        output: "OutputType | None" = None,
    ) -> None:
        """`output` is the type of the answer, if it has one."""
        self._start, self._output = start, output
        self._run: AsyncRun[OutputT] | None = None
        self._events: Follower | None = None

    async def __aenter__(self) -> "AsyncStream[OutputT]":
        self._run = await self._start()
        self._events = self._run.events()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.run.inherited:
            await self.run.stop()

    def __aiter__(self) -> "AsyncStream[OutputT]":
        return self

    async def __anext__(self) -> RunEvent:
        if self._events is None:
            raise WindlassError("the stream has not started: read it inside `async with`")
        try:
            return await self._events.__anext__()
        except StopAsyncIteration:
            await self.run.result()
            raise

    async def text_deltas(self) -> AsyncIterator[str]:
        """Yields only the text deltas."""
        async for event in self:
            if type(event) is TextDelta and event.text:
                yield event.text

    async def partial_outputs(self) -> AsyncIterator[OutputT]:
        """Yields the value of a run with `output=` while the model writes it, then the whole value.

        Fields that are not written yet are None. Raises the run's error.
        """
        reader = self.partial_reader()
        async for event in self:
            for value in reader.read(event):
                yield value
        for value in reader.finish(self.reply):
            yield value

    def partial_reader(self) -> "PartialReader":
        """Returns a reader of partial outputs. Raises `ConfigError` without `output=`."""
        if self._output is None:
            raise ConfigError("partial_outputs needs output=: client.stream(..., output=...)")
        from windlass.output.partial import PartialReader

        return PartialReader(self._output)

    async def sse(self) -> AsyncGenerator[str, None]:
        """Yields each event as a server-sent event, for a `text/event-stream` response.

        Works without `async with`: then closing the generator early stops the run. It does not
        raise the run's error: the last event, `run_ended`, reports it.
        """
        if not self.entered:
            async with self, aclosing(self.sse()) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        assert self._events is not None
        async for event in self._events:
            yield event_to_sse(event)

    @property
    def entered(self) -> bool:
        """Whether `async with` has started the run."""
        return self._events is not None

    @property
    def run(self) -> AsyncRun[OutputT]:
        if self._run is None:
            raise WindlassError("the stream has not started: use `async with`")
        return self._run

    @property
    def run_id(self) -> str:
        return self.run.id

    @property
    def phase(self) -> Phase:
        return self.run.phase

    @property
    def reply(self) -> Reply[OutputT]:
        """The reply, once the stream has ended. Raises the run's error."""
        return self.run.reply

    def approve(
        self,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for approval."""
        return self.run.approve(call_id, approved, arguments=arguments, reason=reason)
