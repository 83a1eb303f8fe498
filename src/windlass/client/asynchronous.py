"""`AsyncClient`: a model, its tools, and the verbs that drive them."""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack, cast

from windlass.client.options import (
    Offer,
    Offers,
    Prompt,
    RunOptions,
    checked,
    messages_from,
    policy_from,
    settings_from,
)
from windlass.client.run import AsyncRun
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.emulation.mode import Modes
from windlass.errors import ConfigError
from windlass.loop.approval import Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext, ToolExecutor
from windlass.loop.loop import Loop, RunPlan
from windlass.loop.policy import Repetition
from windlass.loop.reply import Calls, Reply
from windlass.loop.round import Round
from windlass.model import Model
from windlass.models import Key, Retry, create_model
from windlass.runs.log import Follower
from windlass.runs.store import RunStore
from windlass.settings import Mode, function_calling_settings, mode_from

__all__ = ["AsyncChat", "AsyncClient"]


class AsyncClient:
    """Drives one model. Use it as `async with`, or `await aclose()` it: it owns connections.

    `model` is `provider/name` or any `Model`. `tools` and the run options given here are the
    defaults of every call. Raises `ConfigError` for what cannot work.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        tools: Iterable[Any] = (),
        base_url: str | None = None,
        api_key: Key | None = None,
        headers: Mapping[str, str] | None = None,
        retry: Retry | None = None,
        executor: ToolExecutor | None = None,
        max_running: int = 100,
        keep_finished: float = 300.0,
        **defaults: Unpack[RunOptions],
    ) -> None:
        if isinstance(model, str):
            model = create_model(
                model, base_url=base_url, api_key=api_key, headers=headers, retry=retry or Retry()
            )
        elif any(given is not None for given in (base_url, api_key, headers, retry)):
            raise ConfigError(
                "base_url, api_key, headers and retry go with a model's name, not with a model"
            )
        self.model = model
        settings = function_calling_settings(os.environ)
        self._modes = Modes(model, settings)
        self._mode: Mode = mode_from(defaults.get("mode") or settings.mode)
        self._tools = tuple(tools)
        self._offers = Offers()
        self._executor = executor or ToolExecutor()
        self._defaults = checked(defaults)
        self._store: RunStore[AsyncRun] = RunStore(
            max_running=max_running, keep_finished=keep_finished
        )

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stops the runs that still go and gives back the connections."""
        for run in self._store.all():
            await run.stop()
        await self.model.aclose()

    async def generate(
        self, prompt: Prompt, *, tools: Iterable[Any] | None = None, **options: Unpack[RunOptions]
    ) -> Reply:
        """Asks, runs the tools that the model asks for, and returns its answer.

        Raises `ModelError`, and `RoundLimitExceeded` with `on_limit="error"`.
        """
        plan = await self._plan(prompt, tools, options)
        return await Loop(plan, _ignore).run()

    def stream(
        self, prompt: Prompt, *, tools: Iterable[Any] | None = None, **options: Unpack[RunOptions]
    ) -> AsyncStream:
        """The same, as `async with` a stream of events. Leaving it early stops the run."""
        return self._stream(prompt, tools, options)

    async def start(
        self, prompt: Prompt, *, tools: Iterable[Any] | None = None, **options: Unpack[RunOptions]
    ) -> AsyncRun:
        """Starts a run that goes on by itself. Raises `TooManyRuns`."""
        self._store.admit()
        plan = await self._plan(prompt, tools, options, live=True)
        self._store.admit()
        run = AsyncRun(plan)
        self._store.add(run)
        return run

    def subscribe(self, run_id: str, after: int = 0) -> Follower:
        """The run's events after number `after`, then each as it comes. Raises `RunNotFound`."""
        return self.run(run_id).events(after)

    def run(self, run_id: str) -> AsyncRun:
        """A run that goes or is still kept. Raises `RunNotFound`."""
        return self._store.get(run_id)

    async def stop(self, run_id: str) -> None:
        """Stops a run; one that has ended stays as it is. Raises `RunNotFound`."""
        await self.run(run_id).stop()

    async def approve(
        self,
        run_id: str,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for it. Raises `RunNotFound`."""
        return self.run(run_id).approve(call_id, approved, arguments=arguments, reason=reason)

    async def runs(self) -> list[AsyncRun]:
        """The runs that go, and the finished ones that are still kept."""
        return self._store.all()

    def chat(
        self,
        *,
        tools: Iterable[Any] | None = None,
        messages: Prompt = (),
        **options: Unpack[RunOptions],
    ) -> "AsyncChat":
        """A conversation that remembers."""
        return AsyncChat(self, tools, messages, checked(options))

    async def execute(
        self,
        calls: Sequence[FunctionCall],
        *,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> tuple[FunctionResponse, ...]:
        """Runs calls by hand: each gets one response, in call order; failures are responses too.

        The tools are those given here, those that the calls were offered, or the client's own.
        """
        options = checked({**self._defaults, **options})
        policy = policy_from(options)
        if tools is None and isinstance(calls, Calls):
            known = calls.tools
        else:
            known = (await self._offer(tools)).tools
        async with Dependencies() as dependencies:
            context = RunContext(
                run_id=_new_run_id(),
                tools=known,
                policy=policy,
                emit=_ignore,
                approvals=Approvals(
                    options.get("approve"), wait=False, timeout=policy.approval_timeout
                ),
                dependencies=dependencies,
                slots=asyncio.Semaphore(policy.max_parallel),
            )
            async with Round(1, self._executor, context, Repetition(1)) as round_:
                await round_.finish(calls)
                return tuple(a.response for a in round_.answers(calls, "stopped before it began"))

    def _in_mode(self, given: Mode | None, offer: Offer, messages: Iterable[Message]) -> Model:
        mode = self._mode if given is None else mode_from(given)
        has_tools = bool(offer.tools) or any(message.role == "tool" for message in messages)
        # Where no tools are spoken of there is nothing to fall back from.
        return self._modes.of("native" if mode == "auto" and not has_tools else mode)

    async def _offer(self, tools: Iterable[Any] | None) -> Offer:
        return await self._offers.read(self._tools if tools is None else tools)

    def _stream(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None,
        options: RunOptions,
        on_reply: Callable[[Reply], None] | None = None,
    ) -> AsyncStream:
        async def start() -> AsyncRun:
            return AsyncRun(await self._plan(prompt, tools, options, live=True), on_reply)

        return AsyncStream(start)

    async def _plan(
        self,
        prompt: Prompt,
        tools: Iterable[Any] | None,
        options: RunOptions,
        live: bool = False,
    ) -> RunPlan:
        options = checked(cast("RunOptions", {**self._defaults, **options}))
        policy = policy_from(options)
        offer = await self._offer(tools)
        messages = messages_from(prompt, options.get("system"))
        return RunPlan(
            run_id=_new_run_id(),
            model=self._in_mode(options.get("mode"), offer, messages),
            messages=messages,
            tools=offer.tools,
            declarations=offer.declarations,
            policy=policy,
            executor=self._executor,
            approvals=Approvals(options.get("approve"), wait=live, timeout=policy.approval_timeout),
            settings=settings_from(options),
            extra=options.get("extra", {}),
            live=live,
        )


class AsyncChat:
    """A conversation: each reply's messages are where the next one begins."""

    def __init__(
        self,
        client: AsyncClient,
        tools: Iterable[Any] | None,
        messages: Prompt,
        options: RunOptions,
    ) -> None:
        self._client = client
        self._tools = None if tools is None else tuple(tools)
        self._options = options
        self.messages: tuple[Message, ...] = messages_from(messages, None) if messages else ()

    async def send(self, prompt: Prompt) -> Reply:
        """Says something and returns the answer. A failure leaves the conversation as it was."""
        reply = await self._client.generate(self._next(prompt), tools=self._tools, **self._options)
        self._remember(reply)
        return reply

    def stream(self, prompt: Prompt) -> AsyncStream:
        """The same, as a stream."""
        return self._client._stream(  # pyright: ignore[reportPrivateUsage]
            self._next(prompt), self._tools, self._options, self._remember
        )

    def _next(self, prompt: Prompt) -> tuple[Message, ...]:
        return (*self.messages, *messages_from(prompt, None))

    def _remember(self, reply: Reply) -> None:
        self.messages = reply.messages


def _new_run_id() -> str:
    return f"run_{secrets.token_hex(12)}"


def _ignore(event: object) -> None:
    """A blocking run has no readers."""
