"""Waiting that costs little if there is nothing to wait for: a time limit, and a task's end."""

import asyncio
import functools
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class TimeUp(Exception):
    """The work took longer than its limit, and was cancelled."""


@types.coroutine
def within(seconds: float, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Awaits the work. Raises `TimeUp` after this time.

    Many tools return at once; they need no timer, which costs more than calling them.
    """
    end = asyncio.get_running_loop().time() + seconds
    try:
        awaited = work.send(None)
    except StopIteration as done:
        return done.value
    return (yield from _limited(end, _resumed(work, awaited)).__await__())


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
def _resumed(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that has begun, and now awaits `awaited`."""
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - the work receives it
            step = functools.partial(work.throw, error)
        else:
            step = functools.partial(work.send, sent)
        try:
            awaited = step()
        except StopIteration as done:
            return done.value


async def until_ended(task: asyncio.Future[Any]) -> None:
    """Waits until the task is done, whatever its outcome.

    Costs less than `asyncio.wait`, above all for a task that is done.
    """
    if task.done():
        return
    waiter = asyncio.get_running_loop().create_future()

    def release(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(release)
    try:
        await waiter
    finally:
        task.remove_done_callback(release)
