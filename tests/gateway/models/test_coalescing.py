"""Concurrent requests are served together, and a cancelled one leaves nothing taken."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.gateway.limits.fleet import Coalescer


class Counter:
    """Serves numbers once it is opened."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.unwanted: list[int] = []
        self.failure: Exception | None = None
        self.open = asyncio.Event()
        self.coalescer = Coalescer(self._serve, self.unwanted.append)
        self._next = 0

    async def _serve(self, many: int) -> Sequence[int]:
        self.batches.append(many)
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        self._next += many
        return range(self._next - many + 1, self._next + 1)

    async def asked(self, many: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.coalescer.request()) for _ in range(many)]
        await settle()
        return tasks


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_requests_that_arrive_during_another_are_served_together() -> None:
    counter = Counter()
    first, rest = await counter.asked(1), await counter.asked(5)
    counter.open.set()
    assert await asyncio.gather(*first, *rest) == [1, 2, 3, 4, 5, 6]
    assert counter.batches == [1, 5]
    assert await counter.coalescer.request() == 7


async def test_the_answer_of_a_cancelled_request_is_returned_as_unwanted() -> None:
    counter = Counter()
    _, gone, stays = await counter.asked(3)
    gone.cancel()
    counter.open.set()
    assert await stays == 3
    assert counter.unwanted == [2]


@pytest.mark.parametrize("steps", range(8))
async def test_an_answer_is_never_lost_whenever_its_request_is_cancelled(steps: int) -> None:
    counter = Counter()
    [asking] = await counter.asked(1)
    counter.open.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await settle()
    assert counter.unwanted == ([1] if asking.cancelled() else [])


async def test_a_failure_is_raised_only_to_the_requests_it_concerns() -> None:
    counter = Counter()
    counter.failure = ValueError("no")
    asked = await counter.asked(2)
    counter.open.set()
    for each in asked:
        with pytest.raises(ValueError, match="no"):
            await each
    counter.failure = None
    assert await counter.coalescer.request() == 1
