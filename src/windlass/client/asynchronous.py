"""`AsyncClient`: generates, streams and runs with one model and its tools."""

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack, cast, overload

from windlass.client.chat import AsyncChat, ChatRecord, chats_in
from windlass.client.options import (
    Offers,
    Prompt,
    RunOptions,
    checked,
    messages_from,
    policy_from,
    settings_from,
    tool_list,
)
from windlass.client.request import (
    CallOptions,
    ClientRequest,
    JsonSchema,
    OutputForm,
    ResumedOutputs,
    check_of,
    client_request,
    type_of,
)
from windlass.client.stream import AsyncStream
from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.errors import ConfigError, RunNotFound
from windlass.loop.executor import ToolExecutor, outside_a_run
from windlass.loop.loop import Loop, RunPlan
from windlass.loop.output import OutputValidator
from windlass.loop.round import answers_to
from windlass.model import CachingModel, Model
from windlass.models import Key, Retry, create_model
from windlass.reply import Calls, Reply
from windlass.runs.active_runs import RunStore
from windlass.runs.control import RunControl, StoredEvents, StoredRun
from windlass.runs.event_log import Follower, MemoryLog
from windlass.runs.origin import ADDED, Offer, Origin
from windlass.runs.planning import Planner
from windlass.runs.protocol import RunLog
from windlass.runs.run import AsyncRun
from windlass.runs.service import InterruptedRun, ResumedRun, RunService, new_run_id
from windlass.settings import function_calling_settings, mode_from
from windlass.toolsets.registry import ToolRegistry
from windlass.toolsets.registry import registry as default_registry

T = TypeVar("T")


class AsyncClient:
    """A client of one model. Use it with `async with`, or call `aclose`: it owns connections.

    `model` is `provider/name` or any `Model`. `tools` and the run options are the defaults of every
    call. `registry` resolves tool names and declarations; the default is `windlass.registry`. With
    a `log` (a file name or any `RunLog`), runs and chats survive the process. Raises `ConfigError`
    for invalid options.
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
        registry: ToolRegistry | None = None,
        log: RunLog | str | os.PathLike[str] | None = None,
        max_running: int = 100,
        keep_finished: float = 300.0,
        **defaults: Unpack[RunOptions],
    ) -> None:
        self._defaults = checked(defaults, of_client=True)
        if isinstance(model, str):
            model = create_model(
                model, base_url=base_url, api_key=api_key, headers=headers, retry=retry or Retry()
            )
        elif any(given is not None for given in (base_url, api_key, headers, retry)):
            raise ConfigError(
                "base_url, api_key, headers and retry need a model name, not a Model object"
            )
        self.model = model
        settings = function_calling_settings(os.environ)
        mode = mode_from(defaults.get("mode") or settings.mode)
        self._executor = executor or ToolExecutor()
        self._planner = Planner(model, settings, self._executor, mode)
        self._tools = tool_list(tools)
        self._offers = Offers(default_registry if registry is None else registry, self._tools)
        stored = _log_from(log)
        self._service: RunService[AsyncRun, AsyncRun] = RunService(
            RunStore(max_running=max_running, keep_finished=keep_finished),
            None if stored is None else RunControl(stored),
        )
        self._launched: weakref.WeakSet[AsyncRun] = weakref.WeakSet()
        self._chats: weakref.WeakValueDictionary[str, AsyncChat] = weakref.WeakValueDictionary()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def log(self) -> RunLog | None:
        """The log of its runs; None if they are only in memory."""
        return self._service.log

    async def clear_cache(self) -> int:
        """Clears the model's cache of function declarations, and returns its number of entries.

        Only models of the AI Studio page have such a cache. For all others the number is 0.
        """
        return self.model.clear_cache() if isinstance(self.model, CachingModel) else 0

    async def aclose(self) -> None:
        """Stops the active runs and streams, and closes the log and the connections.

        In a forked child, it does not stop the parent's runs and streams.
        """
        for run in [*self._service.active.all(), *self._launched]:
            if not run.inherited:
                await run.stop()
        await self._service.aclose()
        await self.model.aclose()

    @overload
    async def generate(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> Reply[None]: ...

    @overload
    async def generate(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> Reply[T]: ...

    @overload
    async def generate(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> Reply[Any]: ...

    async def generate(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> Reply[Any]:
        """Sends the prompt, runs the tools that the model calls, and returns the reply.

        `images` follow the prompt: files (`Path`), bytes or URLs. `output` is the type of the
        answer: a pydantic model, dataclass, TypedDict, Struct, enum, `list[X]`, `X | Y` or a JSON
        Schema. The validated value is the reply's `output`; `output_validator` validates it, too.
        Raises `ModelError` and `OutputInvalid`; with `on_limit="error"` also `RoundLimitExceeded`
        and `BudgetExceeded`.
        """
        return await self.answer(client_request(prompt, output, options))

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> AsyncStream[None]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> AsyncStream[T]: ...

    @overload
    def stream(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> AsyncStream[Any]: ...

    def stream(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> AsyncStream[Any]:
        """Does the same as `generate`, as a stream of events for `async with`.

        Leaving the block early stops the run.
        """
        request = client_request(prompt, output, options)
        kind = None if output is None else type_of(output)
        return AsyncStream(lambda: self.launch(request), kind)

    @overload
    async def start(
        self, prompt: Prompt = (), *, output: None = None, **options: Unpack[CallOptions]
    ) -> AsyncRun[None]: ...

    @overload
    async def start(
        self, prompt: Prompt = (), *, output: OutputForm[T], **options: Unpack[CallOptions]
    ) -> AsyncRun[T]: ...

    @overload
    async def start(
        self, prompt: Prompt = (), *, output: JsonSchema, **options: Unpack[CallOptions]
    ) -> AsyncRun[Any]: ...

    async def start(
        self, prompt: Prompt = (), *, output: Any = None, **options: Unpack[CallOptions]
    ) -> AsyncRun[Any]:
        """Starts a run in the background. Raises `TooManyRuns`."""
        active = self._service.active
        active.admit()
        run = await self.launch(client_request(prompt, output, options), admit=active.admit)
        active.add(run)
        if run.log.settled is not None:
            await run.log.settled()  # a run whose id the caller knows must survive a crash
        return run

    async def resume(
        self,
        *,
        tools: Iterable[Any] | None = None,
        outputs: Iterable[Any] = (),
        output_validator: OutputValidator | None = None,
    ) -> list[AsyncRun]:
        """Resumes the interrupted runs of this model: their processes have exited.

        Finds their tools by name in `tools`, by default the client's own. A run with a missing
        tool ends with an error. `outputs` are types of answers: a run with `output=` finds its type
        by its schema; without it, `reply.output` is the JSON value. A run that was started with an
        `output_validator` needs one here, too.
        """
        if self.log is None:
            raise ConfigError("cannot resume runs without a log: create the client with log=...")
        known, name = (await self._offer(tools)).tools, self.model.name
        approve = self._defaults.get("approve")
        resumed = ResumedOutputs(outputs, output_validator)

        async def replan(run: InterruptedRun) -> RunPlan:
            assert run.history.started is not None
            offer, _ = run.origin.offer(known)
            messages, spec = run.history.started.messages, run.origin.output
            check = None if spec is None else resumed.check(spec)
            return self._planner.plan(
                run.record.id, run.origin, messages, offer, approve=approve, output=check
            )

        def revive(run: ResumedRun) -> AsyncRun:
            return AsyncRun(run.plan, log=run.log, history=run.history, orders=run.orders)

        tasks = await self._service.resume(
            lambda record: record.model == name and record.origin.get("kind") == "client",
            replan,
            revive,
        )
        return [run for run in await asyncio.gather(*tasks) if run is not None]

    def subscribe(self, run_id: str, after: int = 0) -> Follower:
        """Follows the run's events after number `after`, both past and future ones.

        Raises `RunNotFound`; with a log, only when the first event is read. Raises
        `RunInterrupted` after the last event of a run whose process has exited and that no
        process resumes.
        """
        try:
            return self._service.active.get(run_id).events(after)
        except RunNotFound:
            if self.log is None:
                raise
            return StoredEvents(self.log, run_id, after)

    async def run(self, run_id: str) -> AsyncRun | StoredRun:
        """Returns a run of this process or of the log. Raises `RunNotFound`."""
        return await self._service.find(run_id)

    async def stop(self, run_id: str) -> None:
        """Stops a run, if it has not ended. Raises `RunNotFound`."""
        await (await self.run(run_id)).stop()

    async def approve(
        self,
        run_id: str,
        call_id: str,
        approved: bool = True,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Decides about a call that waits for approval. With a log, it is stored on return.

        Raises `RunNotFound`, and `StorageError` if the decision cannot be stored.
        """
        run = await self.run(run_id)
        return await decided(run, call_id, approved, arguments=arguments, reason=reason)

    async def runs(self) -> "list[AsyncRun | StoredRun]":
        """Returns the active and the stored finished runs, oldest first."""
        if self.log is None:
            return list(self._service.active.all())
        stored = await self._service.newest()
        return [run for run, record in reversed(stored) if record.origin.get("kind") != ADDED]

    def chat(
        self,
        *,
        id: str | None = None,
        tools: Iterable[Any] | None = None,
        messages: Prompt = (),
        **options: Unpack[RunOptions],
    ) -> AsyncChat:
        """Starts a chat. With the `id` of one of `chats()`, continues that chat."""
        if id is not None and self.log is None:
            if id in self._chats and tools is None and not (messages or options):
                return self._chats[id]
            raise ConfigError(f"unknown chat {id!r}: create the client with log=... to store chats")
        chat = AsyncChat(self, tools, messages, checked(options), id)
        if self.log is None:
            self._chats[chat.id] = chat
        return chat

    async def chats(self) -> list[ChatRecord]:
        """Returns the chats in the log, the last used first. `chat(id=...)` continues one.

        Without a log, returns the chats that the program still references.
        """
        if self.log is None:
            return chats_in(record for chat in self._chats.values() for record in chat.records)
        return chats_in(
            record for record in await self.log.list() if record.origin.get("kind") == "client"
        )

    async def execute(
        self,
        calls: Sequence[FunctionCall],
        *,
        tools: Iterable[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> tuple[FunctionResponse, ...]:
        """Runs calls manually. Returns one response for each, in call order, also for failures.

        Uses `tools`, else the tools that the calls were offered, else the client's own tools, else
        those of its registry.
        """
        options = checked({**self._defaults, **options})
        policy = policy_from(options, self.model.name)
        if tools is None and isinstance(calls, Calls):
            known = self._offers.runnable(calls.tools)
        elif tools is None and not self._tools:
            known = self._offers.registered(call.name for call in calls)
        else:
            known = (await self._offer(tools)).tools
        approve = options.get("approve")
        async with outside_a_run(new_run_id(), known, policy, approve=approve) as context:
            answers = await answers_to(calls, self._executor, context)
            return tuple(answer.response for answer in answers)

    async def _offer(self, tools: Iterable[Any] | None) -> Offer:
        return await self._offers.read(self._tools if tools is None else tools)

    async def answer(self, request: ClientRequest, chat: str = "") -> Reply:
        """Runs a prompt to its end, in a chat if one is given."""
        plan, origin = await self._plan(request)
        if self.log is None:
            return await Loop(plan, _ignore, emit_all=_ignore).run()
        run = AsyncRun(plan, log=self._new_log(plan, origin, chat))
        try:
            return await run.result()
        finally:
            await run.stop()

    async def launch(
        self,
        request: ClientRequest,
        chat: str = "",
        *,
        on_reply: Callable[[Reply], None] | None = None,
        admit: Callable[[], None] = lambda: None,
    ) -> AsyncRun:
        """Starts a run for a reader of its events, in a chat if one is given."""
        plan, origin = await self._plan(request, live=True)
        admit()
        run = AsyncRun(plan, on_reply, log=self._new_log(plan, origin, chat))
        self._launched.add(run)
        return run

    async def store_added(self, messages: tuple[Message, ...], chat: str) -> None:
        """Stores messages that were added to a chat, if there is a log."""
        await self._service.store_messages(messages, self.model.name, chat)

    def _new_log(self, plan: RunPlan, origin: Origin, chat: str) -> MemoryLog | None:
        if self.log is None:
            return None
        return self._service.begin(plan, origin, model=self.model.name, chat=chat)[1]

    async def _plan(self, request: ClientRequest, live: bool = False) -> tuple[RunPlan, Origin]:
        options = checked(cast("RunOptions", {**self._defaults, **request.options}))
        check = check_of(request.output, request.validator, options)
        origin = Origin(
            policy=policy_from(options, self.model.name),
            settings=settings_from(options),
            extra=options.get("extra", {}),
            mode=options.get("mode"),
            live=live,
            output=check and check.spec,
        )
        offer = await self._offer(request.tools)
        messages = messages_from(request.prompt, options.get("system"))
        approve = options.get("approve")
        run_id = new_run_id()
        plan = self._planner.plan(run_id, origin, messages, offer, approve=approve, output=check)
        return plan, origin


async def decided(
    run: AsyncRun | StoredRun,
    call_id: str,
    approved: bool,
    *,
    arguments: dict[str, Any] | None,
    reason: str | None,
) -> bool:
    """Decides about a call of a run, and waits until the decision is stored."""
    if isinstance(run, StoredRun):
        return await run.approve(call_id, approved, arguments=arguments, reason=reason)
    done = run.approve(call_id, approved, arguments=arguments, reason=reason)
    await run.settled()
    return done


def _log_from(given: RunLog | str | os.PathLike[str] | None) -> RunLog | None:
    if not isinstance(given, str | os.PathLike):
        return given
    # Imported here, so that clients without a log start faster.
    from windlass.runs.sqlite import SQLiteLog

    return SQLiteLog(given)


def _ignore(event: object) -> None:
    """Ignores the events of a blocking run."""
