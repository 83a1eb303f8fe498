"""A time limit whose timer starts only if the work has to wait."""

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class TimeUp(Exception):
    """The work took longer than its limit, and was cancelled."""


@types.coroutine
def within(seconds: float, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Awaits the work. Raises `TimeUp` after this time.

    Many tools return at once. They need no timer, which costs more than the call of such a tool.
    """
    end = asyncio.get_running_loop().time() + seconds
    try:
        awaited = work.send(None)
    except StopIteration as done:
        return done.value
    return (yield from _limited(end, resumed(work, awaited)).__await__())


async def _limited(end: float, work: Awaitable[T]) -> T:
    clock = asyncio.timeout_at(end)
    try:
        async with clock:
            return await work
    except TimeoutError:
        if not clock.expired():
            raise
    raise TimeUp


@types.coroutine
def resumed(
    work: Coroutine[Any, Any, T] | Generator[Any, Any, T], awaited: Any
) -> Generator[Any, Any, T]:
    """The rest of a started coroutine that awaits `awaited`."""
    try:
        while True:
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001 - the work receives it
                awaited = work.throw(error)
            else:
                awaited = work.send(sent)
    except StopIteration as done:
        return done.value
