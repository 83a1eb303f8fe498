"""`Gate` and `Latch`: synchronization between a test and the code under test, across threads."""

import asyncio
import contextlib
import threading


class Latch:
    """An event that is set once. Threads block on it; tasks of any event loop await it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def set(self) -> None:
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no waiter is left
                loop.call_soon_threadsafe(_resolve, future)

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._event.is_set():
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
        try:
            await future
        finally:
            with self._lock:
                self._waiters = [waiter for waiter in self._waiters if waiter[1] is not future]

    def block(self, timeout: float = 30.0) -> None:
        """Blocks the thread until the latch is set. Raises `TimeoutError`."""
        if not self._event.wait(timeout):
            raise TimeoutError(f"not set after {timeout:g} s")


class Gate:
    """Delays an answer until `open()`. `reached` is set when the answer waits at the gate."""

    def __init__(self) -> None:
        self.reached = Latch()
        self._opened = Latch()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        """Sets `reached`, then waits until the gate is open."""
        self.reached.set()
        await self._opened.wait()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
