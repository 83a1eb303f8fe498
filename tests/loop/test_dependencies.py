"""Dependencies: made once per run, shared, tried again after a failure, torn down in reverse."""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest

from windlass import ConfigError, Depends, Tool, ToolContext
from windlass.loop.dependencies import Dependencies
from windlass.loop.threads import in_thread
from windlass.tool import as_tools

CONTEXT = ToolContext("run", "call")


def needing(**depends: Any) -> Tool:
    """A tool with a parameter for each dependency."""

    def needs(**_: Any) -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    hints = {name: Annotated[Any, Depends(function)] for name, function in depends.items()}
    needs.__signature__ = inspect.Signature(
        [inspect.Parameter(name, kind, annotation=hint) for name, hint in hints.items()]
    )
    return as_tools([needs])[0]


async def resolved(tool: Tool, dependencies: Dependencies) -> dict[str, Any]:
    return await dependencies.resolve(tool, CONTEXT)


async def test_a_tool_without_dependencies_gets_nothing():
    def f(a: int): ...

    async with Dependencies() as dependencies:
        assert await resolved(as_tools([f])[0], dependencies) == {}


async def test_sync_async_and_generator_functions_give_values():
    def sync() -> int:
        return 1

    async def coroutine() -> int:
        return 2

    def generator() -> Iterator[int]:
        yield 3

    async def async_generator() -> AsyncIterator[int]:
        yield 4

    class Callable:
        async def __call__(self) -> int:
            return 5

    def later() -> Any:
        return coroutine()

    tool = needing(a=sync, b=coroutine, c=generator, d=async_generator, e=Callable(), f=later)
    async with Dependencies() as dependencies:
        values = await resolved(tool, dependencies)
    assert values == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 2}


async def test_a_dependency_is_made_once_per_run_even_by_concurrent_calls():
    made: list[int] = []
    gate = asyncio.Event()

    async def slow() -> int:
        made.append(1)
        await gate.wait()
        return len(made)

    first, second = needing(x=slow), needing(y=slow)
    async with Dependencies() as dependencies:
        waiting = asyncio.gather(*(resolved(t, dependencies) for t in (first, second, first)))
        await asyncio.sleep(0)
        gate.set()
        assert await waiting == [{"x": 1}, {"y": 1}, {"x": 1}]
        assert await resolved(first, dependencies) == {"x": 1}
    async with Dependencies() as another_run:
        assert await resolved(first, another_run) == {"x": 2}


async def test_dependencies_may_have_dependencies():
    made: list[str] = []

    def settings() -> dict[str, str]:
        made.append("settings")
        return {"url": "db:"}

    async def database(
        settings: Annotated[dict[str, str], Depends(settings)], suffix: str = "x"
    ) -> str:
        return settings["url"] + suffix

    class User:
        def __init__(
            self, database: Annotated[str, Depends(database)], context: ToolContext
        ) -> None:
            self.name = f"{database}/{context.run_id}"

    async with Dependencies() as dependencies:
        values = await resolved(needing(a=User, b=database, c=settings), dependencies)
    assert values["a"].name == "db:x/run"
    assert made == ["settings"]


async def test_teardown_is_in_reverse_order_at_the_end_of_the_run():
    said: list[str] = []

    def outer() -> Iterator[str]:
        said.append("outer up")
        yield "outer"
        said.append("outer down")

    async def inner(outer: Annotated[str, Depends(outer)]) -> AsyncIterator[str]:
        said.append("inner up")
        yield f"inner of {outer}"
        said.append("inner down")

    async with Dependencies() as dependencies:
        assert await resolved(needing(x=inner), dependencies) == {"x": "inner of outer"}
        assert said == ["outer up", "inner up"]
    assert said == ["outer up", "inner up", "inner down", "outer down"]


async def test_teardown_errors_are_logged_and_the_others_continue(caplog: pytest.LogCaptureFixture):
    down: list[str] = []

    def good() -> Iterator[int]:
        yield 1
        down.append("good")

    def bad() -> Iterator[int]:
        yield 1
        raise ValueError("bad teardown")

    async def twice() -> AsyncIterator[int]:
        yield 1
        yield 2

    with caplog.at_level(logging.ERROR, "windlass.loop"):
        async with Dependencies() as dependencies:
            await resolved(needing(a=good, b=bad, c=twice), dependencies)
    assert down == ["good"]
    assert len(caplog.records) == 2
    assert "bad teardown" in caplog.text
    assert "yields more than once" in caplog.text


async def test_teardown_happens_when_the_run_fails_or_is_cancelled():
    down: list[str] = []

    async def resource() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            down.append("down")

    async def a_run(up: asyncio.Event) -> None:
        async with Dependencies() as dependencies:
            await resolved(needing(x=resource), dependencies)
            up.set()
            await asyncio.Event().wait()

    up = asyncio.Event()
    task = asyncio.create_task(a_run(up))
    await up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ValueError, match="the run"):
        async with Dependencies() as dependencies:
            await resolved(needing(x=resource), dependencies)
            raise ValueError("the run")
    assert down == ["down", "down"]


async def test_a_failure_reaches_every_waiter_and_the_next_call_tries_again():
    attempts: list[int] = []
    gate = asyncio.Event()

    async def flaky() -> str:
        attempts.append(1)
        await gate.wait()
        if len(attempts) == 1:
            raise OSError("down")
        return "up"

    tool = needing(x=flaky)
    async with Dependencies() as dependencies:
        waiting = asyncio.gather(
            *(resolved(tool, dependencies) for _ in range(3)), return_exceptions=True
        )
        await asyncio.sleep(0)
        gate.set()
        assert [str(failure) for failure in await waiting] == ["down"] * 3
        assert await resolved(tool, dependencies) == {"x": "up"}
    assert len(attempts) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_generator_that_fails_or_yields_nothing_raises(kind: str):
    def fails() -> Iterator[int]:
        raise OSError("down")
        yield 1

    def empty() -> Iterator[int]:
        yield from ()

    async def async_fails() -> AsyncIterator[int]:
        raise OSError("down")
        yield 1

    async def async_empty() -> AsyncIterator[int]:
        for n in ():
            yield n

    bad, nothing = (fails, empty) if kind == "sync" else (async_fails, async_empty)
    async with Dependencies() as dependencies:
        with pytest.raises(OSError, match="down"):
            await resolved(needing(x=bad), dependencies)
        with pytest.raises(RuntimeError, match="does not yield a value"):
            await resolved(needing(x=nothing), dependencies)


async def test_a_cancelled_call_leaves_the_value_to_the_others():
    gate = asyncio.Event()

    async def slow() -> int:
        await gate.wait()
        return 1

    tool = needing(x=slow)
    async with Dependencies() as dependencies:
        first = asyncio.create_task(resolved(tool, dependencies))
        second = asyncio.create_task(resolved(tool, dependencies))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await second == {"x": 1}
        assert first.cancelled()


@pytest.mark.parametrize("kind", ["coroutine", "generator"])
async def test_a_set_up_that_never_ends_is_cancelled_with_the_run(kind: str):
    cancelled: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("forever")

    async def coroutine() -> None:
        await forever()

    async def generator() -> AsyncIterator[None]:
        await forever()
        yield

    tool = needing(x=coroutine if kind == "coroutine" else generator)
    async with Dependencies() as dependencies:
        call = asyncio.create_task(resolved(tool, dependencies))
        for _ in range(5):
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cancelled == ["forever"]


async def test_a_set_up_in_a_thread_is_abandoned_with_the_run_and_closed_when_it_is_done():
    started, release, closed = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[int]:
        started.set()
        release.wait(60)
        try:
            yield 1
        finally:
            closed.set()

    async with Dependencies() as dependencies:
        call = asyncio.create_task(resolved(needing(x=slow), dependencies))
        await in_thread(started.wait, 20)
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()
    assert await in_thread(closed.wait, 20)


async def test_set_up_and_teardown_share_a_task_and_a_context():
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number")
    tasks: list[Any] = []

    async def scoped() -> AsyncIterator[int]:
        tasks.append(asyncio.current_task())
        token = number.set(1)
        yield 1
        number.reset(token)
        tasks.append(asyncio.current_task())

    def sync_scoped() -> Iterator[int]:
        token = number.set(1)
        yield 1
        number.reset(token)
        tasks.append("sync")

    async with Dependencies() as dependencies:
        await resolved(needing(a=scoped, b=sync_scoped), dependencies)
    assert tasks[0] in tasks[1:]
    assert "sync" in tasks


async def test_circles_are_refused_before_anything_runs():
    def first(x: int) -> int:
        return x

    def second(x: Annotated[int, Depends(first)]) -> int:
        return x

    first.__annotations__["x"] = Annotated[int, Depends(second)]
    async with Dependencies() as dependencies:
        with pytest.raises(
            ConfigError, match=r"circular dependencies: .*first -> .*second -> .*first"
        ):
            await resolved(needing(x=first), dependencies)


async def test_a_parameter_without_a_source_is_refused():
    def needy(a: int) -> int:
        return a

    async with Dependencies() as dependencies:
        with pytest.raises(
            ConfigError, match=r"'a' of the dependency .* has neither a default nor Depends"
        ):
            await resolved(needing(x=needy), dependencies)
