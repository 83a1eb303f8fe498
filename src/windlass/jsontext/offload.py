"""Long computations off the event loop: in one worker thread, so that they never crowd it out."""

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

__all__ = ["LARGE", "by_size", "offloaded"]

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 2**16
"""Bytes or characters above which work leaves the event loop: below, it is short for any input."""

_executor = ThreadPoolExecutor(1, "windlass-large")
"""Its thread starts with the first job."""


async def offloaded(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `work` in the worker thread; returns its result or raises its error.

    The process has one such thread: the interpreter runs one thread at a time, so several would not
    be faster, and the event loop would wait for each of them in turn. `work` must not touch what
    the loop owns, and none of its calls into C may be long: such a call holds the interpreter.
    """
    call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)


async def by_size(size: int, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `work` at once if its input is small, and in the worker thread if it is `LARGE`."""
    if size <= LARGE:
        return work(*args, **kwargs)
    return await offloaded(work, *args, **kwargs)
