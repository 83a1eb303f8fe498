"""Plays the scripts of the loop's tests on the replica of the AI Studio page, in a real browser.

A browser belongs to one event loop, and each of those tests has its own: the browser lives in a
thread, where one page is used for test after test.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar

from msgspec.structs import replace
from tests.support.browsing import model_in, started_chromium
from tests.support.plain_text import with_ids

from windlass.content import FunctionCall
from windlass.events import ModelEvent
from windlass.model import Model, ModelRequest
from windlass.models.aistudio import AIStudioModel
from windlass.models.aistudio.turn import Patience
from windlass.testing import Turn
from windlass.testing.aistudio import FakeAIStudio
from windlass.testing.script import Cut, Latch, Slow, Stepper

T = TypeVar("T")

QUICK = Patience(quiet=0.03, late_call=0.03)
"""No script has a call that comes after the page is idle."""


class BrowserThread:
    """A browser in a thread with its own event loop: `with BrowserThread() as thread:`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()

    def __enter__(self) -> Self:
        self._thread.start()
        self.chromium = self.run(self._stack.enter_async_context(started_chromium()))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stack.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class ModelOfOtherLoop:
    """Makes a model of one event loop usable from any other."""

    def __init__(self, model: Model, loop: asyncio.AbstractEventLoop) -> None:
        self._model, self._loop = model, loop

    @property
    def name(self) -> str:
        return self._model.name

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Cancels the request when it is left, and waits until the request is cleaned up."""
        here, ended = asyncio.get_running_loop(), Latch()
        heard: asyncio.Queue[ModelEvent | Exception | None] = asyncio.Queue()
        tasks: list[asyncio.Task[None]] = []

        def tell(what: ModelEvent | Exception | None) -> None:
            here.call_soon_threadsafe(heard.put_nowait, what)

        async def ask() -> None:
            try:
                async with self._model.stream(request) as events:
                    async for event in events:
                        tell(event)
                tell(None)
            except Exception as problem:  # noqa: BLE001 - it is raised where it was asked
                tell(problem)

        def begin() -> None:
            tasks.append(self._loop.create_task(ask()))
            tasks[0].add_done_callback(lambda _: ended.set())

        self._loop.call_soon_threadsafe(begin)
        try:
            yield _heard(heard)
        finally:
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            await ended.wait()

    async def aclose(self) -> None: ...


async def _heard(
    queue: "asyncio.Queue[ModelEvent | Exception | None]",
) -> AsyncIterator[ModelEvent]:
    while (what := await queue.get()) is not None:
        if isinstance(what, Exception):
            raise what
        yield what


class Stage:
    """A replica with one page, for several scripts, one after another."""

    def __init__(self, thread: BrowserThread) -> None:
        self._thread = thread
        self._playing: PageModel | None = None
        self.fake = FakeAIStudio(lambda _: self._step())

    def __enter__(self) -> Self:
        self.fake.start()
        self.model = self._thread.run(self._made())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self.model.aclose())
        self.fake.close()

    def rest(self) -> None:
        """Empties the pages after the tests of a file: a page with a chat is drawn ten times per
        second, because its timer changes."""
        self._thread.run(self._rested())

    async def _rested(self) -> None:
        await self.model.aclose()
        await self._thread.chromium.empty()
        self.model = await self._made()

    async def _made(self) -> AIStudioModel:
        return model_in(self._thread.chromium, self.fake.url, patience=QUICK, attempts=1, pages=2)

    def play(self, script: Any) -> "PageModel":
        self._playing = PageModel(script, ModelOfOtherLoop(self.model, self._thread.loop))
        return self._playing

    def _step(self) -> Any:
        assert self._playing is not None
        return self._playing.step()


class PageModel:
    """The page with a script. `requests` are what the loop asked.

    A page shows no ids; where the script names one, it is put back, so that a test can tell calls
    apart.
    """

    def __init__(self, script: Any, page: Model) -> None:
        self.requests: list[ModelRequest] = []
        self._stepper: Stepper[ModelRequest] = Stepper(script)
        self._page = page
        self._calls: tuple[FunctionCall, ...] = ()

    @property
    def name(self) -> str:
        return self._page.name

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        return self._opened(request)

    async def aclose(self) -> None: ...

    def step(self) -> Any:
        """Returns the step that answers the last request."""
        step = self._stepper.next(self.requests[-1])
        self._calls = _calls_in(step)
        return step

    @asynccontextmanager
    async def _opened(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        request = replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        async with self._page.stream(request) as events:
            yield with_ids(events, lambda: self._calls)


def _calls_in(step: Any) -> tuple[FunctionCall, ...]:
    match step:
        case Turn(calls=calls):
            return calls
        case Cut(turn=turn):
            return _calls_in(turn)
        case Slow(step=held):
            return _calls_in(held)
        case _:
            return ()
