"""Counts the garbage of a piece of work: reference cycles that nothing uses."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

TIMES = 10


class Left:
    """The objects, by type, that each repetition has left behind."""

    def __init__(self) -> None:
        self.each: dict[str, int] = {}


@contextmanager
def without_collector() -> Iterator[Left]:
    """Runs the block `TIMES` times without collections; what is found afterwards is garbage.

    Less than one object for each repetition is not counted: other threads are at work too.
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
    """The garbage of each repetition of `work`. The first one does not count: it fills caches."""
    await work()
    with without_collector() as left:
        for _ in range(TIMES):
            await work()
    return left.each


def garbage_of_sync(work: Callable[[], object]) -> dict[str, int]:
    """The same for work that does not await."""
    work()
    with without_collector() as left:
        for _ in range(TIMES):
            work()
    return left.each
