"""The cache of results: what identical calls share, and when an execution is cancelled."""

import asyncio

import pytest

from windlass.content import FunctionResponse
from windlass.loop.cache import ResultCache
from windlass.reply import ToolAnswer

ANSWER = ToolAnswer(FunctionResponse("f", {"output": 1}, "a"))


class Execution:
    """An execution that the test ends, and that notes whether it was cancelled."""

    def __init__(self) -> None:
        self.started, self.may_end, self.cancelled = asyncio.Event(), asyncio.Event(), False

    async def __call__(self) -> ToolAnswer:
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return ANSWER


async def cancelled(*tasks: asyncio.Task[tuple[ToolAnswer, bool]]) -> None:
    for task in tasks:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0)


async def test_an_execution_is_cancelled_with_its_last_waiter() -> None:
    cache, execution = ResultCache(), Execution()
    first = asyncio.create_task(cache.get("key", 60, execution))
    second = asyncio.create_task(cache.get("key", 60, execution))
    await execution.started.wait()
    await cancelled(first)
    assert not execution.cancelled
    await cancelled(second)
    assert execution.cancelled


async def test_an_execution_that_was_cancelled_is_not_joined_by_a_later_call() -> None:
    cache, given_up, later = ResultCache(), Execution(), Execution()
    call = asyncio.create_task(cache.get("key", 60, given_up))
    await given_up.started.wait()
    await cancelled(call)
    later.may_end.set()
    assert await cache.get("key", 60, later) == (ANSWER, False)


async def test_a_full_cache_evicts_the_entry_that_was_used_longest_ago() -> None:
    cache, execution = ResultCache(max_entries=2), Execution()
    execution.may_end.set()
    for key in ("a", "b", "a", "c"):
        await cache.get(key, 60, execution)
    held = {key: (await cache.get(key, 60, execution))[1] for key in ("a", "c", "b")}
    assert held == {"a": True, "c": True, "b": False}
