"""Values of `Depends` parameters: created once per run and torn down at its end."""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from types import TracebackType
from typing import Any, Protocol

from windlass.errors import ConfigError
from windlass.loop.threads import in_thread
from windlass.tool.signature import (
    AnyCallable,
    Depends,
    ToolContext,
    by_keyword,
    is_async,
    signature_of,
)

log = logging.getLogger("windlass.loop")

_EXHAUSTED = object()


class Dependent(Protocol):
    """The part of a tool that injection needs."""

    @property
    def dependencies(self) -> Mapping[str, Depends]: ...


class Dependencies:
    """The dependencies of one run. Leaving the context tears them down, the newest first."""

    def __init__(self) -> None:
        self._created: dict[AnyCallable, asyncio.Task[Any]] = {}
        self._checked: set[AnyCallable] = set()
        self._teardowns: list[tuple[AnyCallable, Callable[[], Awaitable[None]]]] = []

    async def __aenter__(self) -> "Dependencies":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        unfinished = [task for task in self._created.values() if not task.done()]
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished)
        while self._teardowns:
            function, teardown = self._teardowns.pop()
            try:
                await teardown()
            except Exception:  # a failed teardown must not change the run's result
                log.exception("Teardown failed", extra={"dependency": _name(function)})

    async def resolve(self, tool: Dependent, context: ToolContext) -> dict[str, Any]:
        """Returns the values of the tool's `Depends` parameters.

        If a dependency raises, every call that waits for it raises; the next call tries again.
        """
        if not tool.dependencies:
            return {}
        for depends in tool.dependencies.values():
            self._check(depends.function, ())
        return await self._values(tool.dependencies, context)

    async def _values(self, wanted: Mapping[str, Depends], context: ToolContext) -> dict[str, Any]:
        tasks = {name: self._task(depends.function, context) for name, depends in wanted.items()}
        # Shielded: other calls may wait for the same value when this one is cancelled.
        return {name: await asyncio.shield(task) for name, task in tasks.items()}

    def _task(self, function: AnyCallable, context: ToolContext) -> asyncio.Task[Any]:
        if (known := self._created.get(function)) is not None:
            return known
        task = asyncio.get_running_loop().create_task(self._make(function, context))
        self._created[function] = task
        task.add_done_callback(lambda done: self._forget_if_failed(function, done))
        return task

    def _forget_if_failed(self, function: AnyCallable, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._created[function]

    def _check(self, function: AnyCallable, path: tuple[AnyCallable, ...]) -> None:
        """Rejects cycles before anything runs: two tasks that await each other never end."""
        if function in path:
            cycle = " -> ".join(_name(each) for each in (*path[path.index(function) :], function))
            raise ConfigError(f"circular dependencies: {cycle}")
        if function in self._checked:
            return
        signature = signature_of(function)
        for parameter in signature.parameters:
            if parameter.required:
                raise ConfigError(
                    f"the parameter {parameter.name!r} of the dependency {_name(function)} has"
                    " neither a default nor Depends"
                )
        for depends in signature.dependencies.values():
            self._check(depends.function, (*path, function))
        self._checked.add(function)

    async def _make(self, function: AnyCallable, context: ToolContext) -> Any:
        signature = signature_of(function)
        arguments = await self._values(signature.dependencies, context)
        if signature.context_parameter:
            arguments[signature.context_parameter] = context
        call = by_keyword(function, signature)
        if _is_kind(inspect.isasyncgenfunction, function):
            return await self._enter_async(function, call(**arguments))
        if _is_kind(inspect.isgeneratorfunction, function):
            return await self._enter_sync(function, call(**arguments))
        value = call(**arguments) if is_async(function) else await in_thread(call, **arguments)
        return await value if inspect.isawaitable(value) else value

    async def _enter_async(
        self, function: AnyCallable, generator: AsyncGenerator[Any, None]
    ) -> Any:
        """Sets up and tears down in one task: cancel scopes and context variables need that."""
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        closing = asyncio.Event()

        async def own() -> None:
            async with contextlib.aclosing(generator):
                ready.set_result(_yielded(function, await anext(generator, _EXHAUSTED)))
                await closing.wait()
                _finished(function, await anext(generator, _EXHAUSTED))

        owner = asyncio.get_running_loop().create_task(own())

        async def teardown() -> None:
            closing.set()
            await owner

        try:
            await asyncio.wait((owner, ready), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            owner.cancel()
            await asyncio.gather(owner, return_exceptions=True)
            raise
        if not ready.done():
            return await owner  # raises what the set-up raised
        self._teardowns.append((function, teardown))
        return ready.result()

    async def _enter_sync(
        self, function: AnyCallable, generator: Generator[Any, None, None]
    ) -> Any:
        context = contextvars.copy_context()
        abandoned = threading.Event()

        def step() -> Any:
            value = context.run(next, generator, _EXHAUSTED)
            if abandoned.is_set():  # the call that waited for the set-up was cancelled
                context.run(generator.close)
            return value

        async def teardown() -> None:
            _finished(function, await in_thread(step))

        try:
            value = _yielded(function, await in_thread(step))
        except asyncio.CancelledError:
            abandoned.set()
            raise
        self._teardowns.append((function, teardown))
        return value


def _is_kind(kind: Callable[[Any], bool], function: AnyCallable) -> bool:
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004


def _yielded(function: AnyCallable, value: Any) -> Any:
    if value is _EXHAUSTED:
        raise RuntimeError(f"the dependency {_name(function)} does not yield a value")
    return value


def _finished(function: AnyCallable, value: Any) -> None:
    if value is not _EXHAUSTED:
        raise RuntimeError(f"the dependency {_name(function)} yields more than once")


def _name(function: AnyCallable) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
