"""Counts the garbage of a piece of work: unused reference cycles."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

TIMES = 10


class Left:
    """The number of objects that each repetition has left, by type."""

    def __init__(self) -> None:
        self.each: dict[str, int] = {}


@contextmanager
def without_collector() -> Iterator[Left]:
    """Turns the garbage collector off for the block, and counts the garbage afterwards.

    The block repeats its work `TIMES` times. Less than one object for each repetition does not
    count, because other threads are working too.
    """
    left = Left()
    gc.collect()
    gc.freeze()  # permanently: visiting these objects again would take most of the time
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield left
        gc.collect()
        found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage)
        left.each = {name: count // TIMES for name, count in found.items() if count >= TIMES}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def garbage_of(work: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """Returns the garbage of a repetition of `work`, without the first, which fills caches."""
    await work()
    with without_collector() as left:
        for _ in range(TIMES):
            await work()
    return left.each


def garbage_of_sync(work: Callable[[], object]) -> dict[str, int]:
    """Returns the same for sync work."""
    work()
    with without_collector() as left:
        for _ in range(TIMES):
            work()
    return left.each
