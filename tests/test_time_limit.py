"""A time limit for work that may return at once."""

import asyncio

import pytest

from windlass.time_limit import TimeUp, within


async def ready(value: int) -> int:
    return value


async def after_pauses(value: int, pauses: int = 3) -> int:
    for _ in range(pauses):
        await asyncio.sleep(0)
    return value


async def failing() -> int:
    raise TimeoutError("its own")


async def failing_later() -> int:
    await asyncio.sleep(0)
    raise TimeoutError("its own")


async def test_only_work_that_waits_starts_a_timer(monkeypatch: pytest.MonkeyPatch):
    loop, timers = asyncio.get_running_loop(), []
    call_at = loop.call_at

    def counted(*args):
        timers.append(args)
        return call_at(*args)

    monkeypatch.setattr(loop, "call_at", counted)
    assert await within(60, ready(7)) == 7
    assert timers == []
    assert await within(60, after_pauses(7)) == 7
    assert len(timers) == 1


async def test_work_that_waits_several_times_returns_its_value():
    assert await within(60, after_pauses(7)) == 7


async def test_the_result_of_an_awaited_future_reaches_the_work():
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, "arrived")

    async def work() -> tuple[str, str]:
        return await future, await asyncio.sleep(0, "second")

    assert await within(60, work()) == ("arrived", "second")


async def test_slow_work_is_cancelled():
    cleaned: list[str] = []

    async def slow():
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("up")

    with pytest.raises(TimeUp):
        await within(0.01, slow())
    assert cleaned == ["up"]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_the_limit_includes_the_time_before_the_first_wait():
    with pytest.raises(TimeUp):
        await within(-1, asyncio.sleep(60))


@pytest.mark.parametrize("work", [failing, failing_later])
async def test_a_timeout_error_of_the_work_itself_is_passed_on(work):
    with pytest.raises(TimeoutError, match="its own"):
        await within(60, work())


async def test_a_cancellation_from_outside_reaches_the_work():
    heard: list[str] = []

    async def work():
        await asyncio.sleep(0)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def limited():
        await within(60, work())

    task = asyncio.create_task(limited())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == ["cancelled"]


async def test_work_may_continue_after_an_error_that_it_awaited():
    async def work() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, ValueError("no"))
        try:
            await future
        except ValueError as error:
            await asyncio.sleep(0)
            return str(error)
        return "unexpected"

    assert await within(60, work()) == "no"
