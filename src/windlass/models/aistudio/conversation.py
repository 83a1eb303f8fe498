"""One request on one page: what is sent, what is read, and what is left behind."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from windlass.content import FunctionCall, Message, PrivateText
from windlass.errors import ModelError
from windlass.events import ModelEvent, TextDelta, ToolCallEnded, TurnEnded
from windlass.model import ModelRequest
from windlass.models.aistudio.elements import page_failed
from windlass.models.aistudio.orchestrator import Orchestrator
from windlass.models.aistudio.pool import HeldPage
from windlass.models.aistudio.schema import Declarations
from windlass.models.aistudio.snapshots import save_snapshot
from windlass.models.aistudio.turn import PageTurn, Patience
from windlass.models.aistudio.wire import (
    Plan,
    Prompt,
    SaidTurn,
    offered_functions,
    plan_of,
    reminder,
    said_turns,
)

__all__ = ["Conversation"]

log = logging.getLogger("windlass.models.aistudio")

_OF_THE_PAGE = frozenset({"page_failed", "timeout"})


class Conversation:
    """A request and its answer on a page that belongs to it alone for as long."""

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
        """The events of the turn. Raises `ModelError`; whatever breaks off stops the page."""
        from playwright.async_api import Error

        held, end = self._held, None
        plan = plan_of(request.messages, held.live)
        held.live = None  # until the turn is whole
        said = _Said()
        try:
            async with self._in_time("become ready"):
                plan = await self._orchestrator.prepare(held, plan, request, declarations)
            async with aclosing(self._answered(plan, request)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded):
                        end = event  # told last: whoever reads it may leave at once
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
        assert end is not None  # every turn has its end
        held.live = said.history(request) if self._answerable else None
        await self._orchestrator.clean_up(held, pending=bool(said.calls))
        yield end

    async def _answered(
        self, plan: Plan, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """The turn; where a call is required, words are answered with a reminder, so many times."""
        functions = offered_functions(request)
        known = tuple(function.name for function in functions)
        required = bool(known) and request.tool_choice.mode == "required"
        for tries_left in reversed(range(self._tries)):
            kept: list[ModelEvent] = []
            async with aclosing(self._turn(plan, known)) as events:
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
            log.warning("The model did not keep to tool_choice; asking once more")
            plan = Prompt(reminder(request.tool_choice, functions), new_chat=False)

    async def _turn(self, plan: Plan, known: tuple[str, ...]) -> AsyncGenerator[ModelEvent, None]:
        chat = self._held.chat
        turn = PageTurn(known)
        async with chat.watch() as watch:
            async with self._in_time("taken the prompt"):
                if isinstance(plan, Prompt):
                    await chat.send(plan.text)
                else:
                    await chat.answer_calls(plan.texts)
            while True:
                waits_for = turn.waits_for
                snapshot = await watch.next(self._seconds[waits_for])
                if snapshot is None:
                    break
                for event in turn.feed(snapshot):
                    yield event
        if waits_for == "busy":
            raise self._late("shown anything new")
        events = turn.finish()
        self._answerable = turn.is_answerable
        for event in events:
            yield event

    @asynccontextmanager
    async def _in_time(self, what: str) -> AsyncGenerator[None]:
        """A page that hangs altogether keeps none of its own time limits."""
        try:
            async with asyncio.timeout(self._seconds["busy"]):
                yield
        except TimeoutError:
            raise self._late(what) from None

    def _late(self, what: str) -> ModelError:
        return ModelError(
            f"the page has not {what} for {self._seconds['busy']:g} seconds",
            status=504,
            code="timeout",
        )

    async def _failed(self, problem: ModelError) -> None:
        """A page that cannot be operated is loaded anew for the next request."""
        chat = self._held.chat
        await save_snapshot(chat.page, self._snapshots, seconds=chat.elements.seconds)
        if problem.code in _OF_THE_PAGE:
            chat.model = None

    async def _stop(self) -> None:
        """Presses Stop. The page is no longer relied upon, and loaded anew if it does not stop."""
        from playwright.async_api import Error

        self._held.forget()
        chat = self._held.chat
        try:
            async with asyncio.timeout(2 * chat.elements.seconds):
                await chat.stop()
        except (ModelError, Error, TimeoutError) as problem:
            log.info("The page could not be stopped: %s", PrivateText(str(problem) or "it hangs"))
            chat.model = None


class _Said:
    """What the model said in this turn, for the comparison with the next request's history."""

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
