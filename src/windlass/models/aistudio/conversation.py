"""One request on one page: preparing the page, sending the prompt, reading the turn.

Setting up functions is slow, so `Orchestrator` remembers the declarations of a page by their
digest. It trusts them only after it has read the page's switch again, and forgets them after a
model change, a new chat, a failure, or the cache's time limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.content import FunctionCall, Message, PrivateText
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta, ToolCallEnded, TurnEnded
from windlass.model import ModelRequest, Settings, named_functions
from windlass.models.aistudio.browser import HeldPage
from windlass.models.aistudio.elements import page_failed
from windlass.models.aistudio.schema import Declarations, SchemaConverter
from windlass.models.aistudio.turn import PageTurn, Patience, rows_of
from windlass.models.aistudio.wire import (
    PagePrompt,
    Plan,
    SaidTurn,
    has_search,
    offered_functions,
    plan_of,
    reminder,
    said_turns,
)
from windlass.models.retry import Retry, Waiting
from windlass.settings import FunctionCallingSettings

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page


log = logging.getLogger("windlass.models.aistudio")

_PAGE_ERROR_CODES = frozenset({"page_failed", "page_unreadable", "timeout"})


class PageConversation:
    """A request and its turn, on a page that no other request uses meanwhile."""

    def __init__(
        self,
        held: HeldPage,
        orchestrator: Orchestrator,
        snapshots: Path | None,
        *,
        patience: Patience,
        silence: float,
        tries: int,
    ) -> None:
        self._held, self._orchestrator, self._snapshots = held, orchestrator, snapshots
        self._tries = tries
        self._answerable = True
        self._seconds = {
            "busy": silence,
            "quiet": patience.quiet,
            "late_call": patience.late_call,
        }

    async def events(
        self, request: ModelRequest, declarations: Declarations
    ) -> AsyncGenerator[ModelEvent, None]:
        """The events of the turn. Raises `ModelError`. An interruption stops the page."""
        from playwright.async_api import Error

        held, end = self._held, None
        plan = plan_of(request.messages, held.live)
        held.live = None  # until the turn is complete
        said = _ReceivedTurn()
        try:
            async with self._in_time("become ready"):
                plan = await self._orchestrator.prepare(held, plan, request, declarations)
            async with aclosing(self._answered(plan, request)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded):
                        end = event  # yielded last: the reader may close the generator after it
                        break
                    said.feed(event)
                    yield event
        except ModelError as problem:
            await self._failed(problem)
            raise
        except Error as error:
            problem = page_failed(f"the page failed: {error.message.splitlines()[0]}")
            await self._failed(problem)
            raise problem from None
        finally:
            if end is None:
                await self._stop()
        assert end is not None
        held.live = said.history(request) if self._answerable else None
        await self._orchestrator.clean_up(held, pending=bool(said.calls))
        yield end

    async def _answered(
        self, plan: Plan, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """The turn. If a required call is missing, a reminder is sent, up to `tries` times."""
        functions = offered_functions(request)
        known = tuple(function.name for function in functions)
        required = bool(known) and request.tool_choice.mode == "required"
        for tries_left in reversed(range(self._tries)):
            kept: list[ModelEvent] = []
            async with aclosing(self._turn(plan, request)) as events:
                async for event in events:
                    kept.append(event)
                    if not required:
                        yield event
            if not required:
                return
            if not tries_left or any(isinstance(event, ToolCallEnded) for event in kept):
                for event in kept:
                    yield event
                return
            log.warning("the model ignored tool_choice; asking again")
            plan = PagePrompt(reminder(request.tool_choice, functions), new_chat=False)

    async def _turn(self, plan: Plan, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        chat = self._held.chat
        functions = offered_functions(request)
        known = tuple(function.name for function in functions)
        bare = tuple(each.name for each in functions if not each.parameters.get("properties"))
        named = tuple(each.name for each in named_functions(request))
        others = tuple(name for name in named if name not in known)
        turn = PageTurn(known, bare=bare, others=others, live=request.live)
        given = (plan.text,) if isinstance(plan, PagePrompt) else plan.texts
        async with chat.watch(given, named, is_prompt=isinstance(plan, PagePrompt)) as watch:
            async with self._in_time("taken the prompt"):
                if isinstance(plan, PagePrompt):
                    await chat.send(plan.text, plan.images)
                else:
                    await chat.answer_calls(plan.texts, named)
            while True:
                waits_for = turn.waits_for
                snapshot = await watch.next(self._seconds[waits_for])
                if snapshot is None:
                    break
                for event in turn.feed(snapshot):
                    yield event
        if waits_for == "busy":
            raise self._late("shown anything new", "turn", "generating", "run_button")
        events = turn.finish()
        self._answerable = turn.is_answerable
        for event in events:
            yield event

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncGenerator[None]:
        """Limits the time, because a page that hangs ignores the other time limits."""
        try:
            async with asyncio.timeout(self._seconds["busy"]):
                yield
        except TimeoutError:
            raise self._late(what) from None

    def _late(self, what: str, *elements: str) -> ModelError:
        """The error of a page that takes too long; `elements` are the rows to check."""
        rows = elements or (self._held.chat.elements.last,)
        return ModelError(
            f"the page has not {what} for {self._seconds['busy']:g} seconds; {rows_of(rows)}",
            status=504,
            code="timeout",
        )

    async def _failed(self, problem: ModelError) -> None:
        """Saves a snapshot. A page that cannot be operated is reloaded for the next request."""
        chat = self._held.chat
        await save_snapshot(chat.page, self._snapshots, seconds=chat.elements.seconds)
        if problem.code in _PAGE_ERROR_CODES:
            chat.model = None

    async def _stop(self) -> None:
        """Presses Stop and forgets the page's state. A page that does not stop is reloaded."""
        from playwright.async_api import Error

        self._held.forget()
        chat = self._held.chat
        try:
            async with asyncio.timeout(2 * chat.elements.seconds):
                await chat.stop()
        except (ModelError, Error, TimeoutError) as problem:
            log.info("cannot stop the page: %s", PrivateText(str(problem) or "it hangs"))
            chat.model = None


class _ReceivedTurn:
    """The model's turn, to compare with the next request's history."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self.calls: list[FunctionCall] = []

    def feed(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, ToolCallEnded):
            self.calls.append(event.call)

    def history(self, request: ModelRequest) -> tuple[SaidTurn, ...]:
        answer = Message.assistant("".join(self._text), *self.calls)
        return said_turns([*request.messages, answer])


_FIELDS = ("max_tokens", "temperature", "top_p")
_UNSUPPORTED = ("top_k", "stop", "seed")


class Orchestrator:
    """Brings pages into the state that a request needs. For requests to one model."""

    def __init__(
        self,
        model: str,
        settings: FunctionCallingSettings,
        *,
        waiting: Callable[[Retry], Waiting] = Waiting,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model, self._settings = model, settings
        self._retry = Retry(attempts=max(1, settings.native_retry_count), first_wait=0.25)
        self._waiting, self._clock = waiting, clock
        self._converter = SchemaConverter()
        self._reported_settings: set[str] = set()
        self.setups = 0
        """How often declarations were written to an editor."""

    async def prepare(
        self, held: HeldPage, plan: Plan, request: ModelRequest, declarations: Declarations
    ) -> Plan:
        """Prepares the page for the plan, and returns the plan as the page supports it.

        Raises `NativeModeUnavailable` if functions cannot be declared, `ModelError` otherwise.
        """
        held.chat.functions.debug = self._settings.debug_logs
        if held.chat.model != self._model:
            self._forget(held, "the page is loaded with another model")
            await held.chat.open(self._model)
        if isinstance(plan, PagePrompt) and plan.new_chat:
            if not held.chat.is_new:
                self._forget(held, "a new chat begins")
                await held.chat.new_chat()
            plan = await self._with_system(held, plan)
        await held.chat.dismiss()
        await self._set_tools(held, request, declarations)
        await self._set_fields(held, request.settings)
        return plan

    async def clean_up(self, held: HeldPage, *, pending: bool) -> None:
        """Clears the declarations after a request, unless they are cached or calls are pending.

        Cached declarations are replaced when another request needs different ones.
        """
        if self._settings.cache_enabled or pending or not self._settings.clear_between_requests:
            return
        if held.declared is not None:
            self._forget(held, "the request has ended, and the cache is disabled")
            try:
                await held.chat.functions.clear_declarations()
            except ModelError as problem:
                log.warning("cannot clear the page's declarations: %s", problem)

    async def _with_system(self, held: HeldPage, plan: PagePrompt) -> PagePrompt:
        """Writes the system instructions to their field, or puts them before the prompt."""
        if await held.chat.set_field("system", plan.system) or not plan.system:
            return plan
        return PagePrompt(f"{plan.system}\n\n{plan.text}", new_chat=True, images=plan.images)

    async def _set_tools(
        self, held: HeldPage, request: ModelRequest, declarations: Declarations
    ) -> None:
        functions = held.chat.functions
        if not declarations.functions:
            self._log("no functions: switching function calling off")
            await functions.disable()
            await functions.set_search(has_search(request))
            return
        why = self._not_cached(held, declarations)
        if not why and not await functions.is_enabled():
            why = "the page's switch is off"
        if why:
            self._log("cache miss: %s; declaring %s", why, declarations.digest[:12])
            await self._declare(held, declarations)
        else:
            self._log("cache hit: the page has the declarations %s", declarations.digest[:12])

    def _not_cached(self, held: HeldPage, declarations: Declarations) -> str:
        """Why the page's declarations cannot be used again; empty if they can."""
        if not self._settings.cache_enabled:
            return "the cache is disabled"
        if held.declared is None:
            return "the page's declarations are not known"
        if held.declared != declarations.digest:
            return f"the page has other declarations ({held.declared[:12]})"
        ttl = self._settings.cache_ttl
        if ttl is not None and self._clock() - held.declared_at >= ttl:
            return f"they are older than {ttl:g} seconds"
        return ""

    def _forget(self, held: HeldPage, why: str) -> None:
        if held.declared is not None:
            self._log("cache cleared: %s", why)
        held.declared = None

    def _log(self, message: str, *values: object) -> None:
        """Logs a decision, with `FC_DEBUG_LOGS`."""
        if self._settings.debug_logs:
            log.info(message, *values)

    async def _declare(self, held: HeldPage, declarations: Declarations) -> None:
        held.declared = None
        waiting = self._waiting(self._retry)
        functions = held.chat.functions
        while True:
            try:
                await functions.enable()
                await functions.set_declarations(self._converter.to_json_string(declarations))
                break
            except ModelError as problem:
                try:
                    await waiting.after(problem)
                except ModelError:
                    problem.retryable = False  # all retries are used up
                    raise
        self.setups += 1
        self._log(
            "digest %s: the page has %d functions", declarations.digest, len(declarations.functions)
        )
        held.declared, held.declared_at = declarations.digest, self._clock()

    async def _set_fields(self, held: HeldPage, settings: Settings) -> None:
        for name in _FIELDS:
            value: float | None = getattr(settings, name)
            if value is None:
                if (before := held.defaults.pop(name, None)) is not None:
                    await held.chat.set_field(name, before)
                continue
            before = await held.chat.field(name)
            if before is None:
                self._report_ignored(name)
                continue
            held.defaults.setdefault(name, before)
            await held.chat.set_field(
                name, f"{value:g}" if isinstance(value, float) else str(value)
            )
        for name in _UNSUPPORTED:
            if getattr(settings, name) is not None:
                self._report_ignored(name)

    def _report_ignored(self, name: str) -> None:
        if name not in self._reported_settings:
            self._reported_settings.add(name)
            log.info("AI Studio's page has no field for %s: the setting is ignored", name)


async def save_snapshot(page: Page, folder: Path | None, *, seconds: float) -> None:
    """Writes the page's HTML and a screenshot, readable only by the owner. Never fails.

    They contain the conversation. `seconds` limits the time for a page that hangs.
    """
    from playwright.async_api import Error

    if folder is None or page.is_closed():
        return
    stem = f"aistudio-{time.strftime('%Y%m%d-%H%M%S')}-{time.monotonic_ns() % 1_000_000:06}"
    try:
        async with asyncio.timeout(seconds):
            shown = {".html": (await page.content()).encode(), ".png": await page.screenshot()}
        await asyncio.to_thread(_write, folder, stem, shown)
    except (Error, OSError) as problem:  # a time-out is an OSError
        said = PrivateText(str(problem) or "it hangs")
        log.warning("cannot save a snapshot of the page: %s", said)
    else:
        log.info("saved a snapshot of the page to %s", folder / f"{stem}.html")


def _write(folder: Path, stem: str, shown: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for ending, data in shown.items():
        path = folder / f"{stem}{ending}"
        path.touch(mode=0o600)
        path.write_bytes(data)
