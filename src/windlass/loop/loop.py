"""The loop: ask the model, run the tools it calls, send the results back, repeat.

Blocking, streaming, sync and async calls all run this coroutine, which emits events as it works.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import Declaration, FunctionCall, Message, Usage
from windlass.errors import BudgetExceeded, ModelError, OutputInvalid, RoundLimitExceeded
from windlass.events import (
    BudgetName,
    ModelEvent,
    OutputRejected,
    Phase,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    StopReason,
    TextDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from windlass.loop.approval import Approvals
from windlass.loop.dependencies import Dependencies
from windlass.loop.executor import RunContext, ToolExecutor
from windlass.loop.history import History, RecordedCall, RecordedRound
from windlass.loop.output import RETRY_STATUS, OutputCheck
from windlass.loop.pace import (
    ITEMS_AT_ONCE,
    LONGEST_DELTA,
    Pace,
    at_once,
    in_short_pieces,
    size_of,
)
from windlass.loop.policy import (
    ANSWER_REASONS,
    BUDGET_CALL_STATUS,
    BUDGET_STATUS,
    EMPTY_ANSWER,
    END_REASONS,
    LIMIT_CALL_STATUS,
    LIMIT_STATUS,
    NO_BUDGET_ANSWER,
    NO_BUDGET_STATUS,
    REPETITION_CALL_STATUS,
    REPETITION_STATUS,
    Policy,
    Repetition,
    Step,
    Terms,
    demand_of,
    next_step,
    terms_of,
)
from windlass.loop.round import Round
from windlass.loop.transcript import Transcript
from windlass.loop.turn import Turn, TurnBuilder, UniqueIds
from windlass.model import Model, ModelRequest, Settings, batch_reader
from windlass.output.spec import Accepted
from windlass.reply import NOT_BEGUN, Reply, ToolAnswer
from windlass.tool import Tool

log = logging.getLogger("windlass.loop")

TRUNCATED = "Not run: the output limit cut this turn, so the call may be incomplete. Be shorter."
NO_HISTORY = History(())
LAST_TURN = "Not run: this was the last turn of the run."
NO_BUDGET = "Not run: the budget of this key is used up."


def error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


class SharedBudget(Protocol):
    """A budget that several runs share, such as that of a key."""

    async def spend(self, round: int, usage: Usage) -> bool:
        """Counts the usage of a round, once. Returns whether the budget is used up."""
        ...

    async def is_used_up(self) -> bool: ...


def no_notice() -> str:
    return ""


class RunPlan(Struct, frozen=True):
    """Everything that a run needs at its start."""

    run_id: str
    model: Model | None
    """None if the run may only end: its history has a `refusal`."""
    messages: tuple[Message, ...]
    tools: Mapping[str, Tool]
    declarations: tuple[Declaration, ...]
    policy: Policy
    executor: ToolExecutor
    approvals: Approvals
    settings: Settings = Settings()
    extra: dict[str, Any] = {}
    live: bool = False
    output: OutputCheck | None = None
    """The check of the answer, if it must be a value of a type."""
    error_text: Callable[[BaseException], str] = error_text
    """Turns the error that ended the run into the text of its last event."""
    shared_budget: SharedBudget | None = None
    """When it is used up, the run ends after its current round, without a final answer."""
    notice: Callable[[], str] = no_notice
    """Returns a sentence for the user about a model that cannot answer yet, or nothing."""


class Loop:
    """One run. Its state can be read while it is running; `run` is called once.

    `settled` waits until all emitted events are stored. With a `history` the run resumes: recorded
    turns and results are taken from the history and not requested again.
    """

    def __init__(
        self,
        plan: RunPlan,
        emit: Callable[[RunEvent], None],
        settled: Callable[[], Awaitable[None]] | None = None,
        history: History | None = None,
        emit_all: Callable[[Sequence[RunEvent]], None] | None = None,
    ) -> None:
        """`emit_all` emits several events at once; without it, they are emitted one by one."""
        self.plan = plan
        self.emit = emit
        self._emit_all = emit_all or functools.partial(_one_by_one, emit)
        self._settled = settled
        self._history = history or NO_HISTORY
        self._ids = UniqueIds(self._history.call_ids)
        self.phase: Phase = "awaiting_model_call"
        self.stop_reason: StopReason | None = None
        self._transcript = Transcript(plan.messages, plan.tools, plan.policy.max_result_chars)
        started = self._history.started
        self._model_name = plan.model.name if plan.model else started.model if started else ""
        self._begun = False
        self._reached = 0
        """The last round that the loop has reached."""
        self._rounds_run = 0
        self._repetition = Repetition(plan.policy.max_repeats)
        self._repeating = False
        self._budget: BudgetName | None = None
        """The budget that is used up."""
        self._has_budget = (
            plan.policy.max_tokens_total is not None
            or plan.policy.max_cost is not None
            or plan.shared_budget is not None
        )
        self._demand = demand_of(plan.policy, plan.tools)
        self._rejections = 0
        self._limit_reported = False
        self._accepted: Accepted[Any] | None = None
        self._unanswered: tuple[Round, Sequence[FunctionCall]] | None = None
        """Calls that must receive an answer, however the run ends."""
        self._began = time.monotonic() - _seconds_so_far(self._history)
        """When the run began, by the monotonic clock."""
        plan.approvals.expect(self._history.waiting_calls, emit)

    async def run(self) -> Reply:
        """Repeats rounds until the run ends, and returns the reply.

        Raises `ModelError` if the model fails; with `on_limit="error"` also `RoundLimitExceeded`
        and `BudgetExceeded`.
        Deadlines and refusals are the reply's `stop_reason`. The last event is always `RunEnded`.
        """
        self._begin()
        clock = asyncio.timeout(self._time_left())
        try:
            async with clock, Dependencies() as dependencies:
                context = self._context(dependencies, clock.when())
                reason = await self._run_rounds(context)
        except TimeoutError as error:
            if not clock.expired():
                self.end("error", error)
                raise
            reason = "deadline"
        except asyncio.CancelledError:
            self.end("stopped")
            raise
        except BaseException as error:
            self.end("error", error)
            raise
        self.end(reason)
        return self.reply()

    def reply(self) -> Reply:
        """Returns the reply of an ended run."""
        reason = self.stop_reason or "stopped"
        reply = self._transcript.reply(reason, self.plan.run_id, self._model_name)
        if self.plan.output is None:
            return reply
        accepted = self._accepted
        return replace(reply, typed=accepted and accepted.value, has_output=accepted is not None)

    def end(self, reason: StopReason, error: BaseException | None = None) -> None:
        """Ends the run at any time: answers all open calls, then emits `RunEnded`.

        A resumed run may end before the loop has reached all its recorded rounds.
        """
        if not self._begun:
            self._begin()
        if self._unanswered is not None:
            self._answer(NOT_BEGUN)
        self._answer_recorded()
        self.stop_reason = reason
        self.phase = "ended"
        text = None if error is None else self.plan.error_text(error)
        budget = self._budget if reason == "budget" else None
        rounds = len(self._transcript.rounds)
        self.emit(RunEnded(reason, self._transcript.usage, rounds, text, budget))

    def _begin(self) -> None:
        """Emits the first event."""
        self._begun = True
        plan, history = self.plan, self._history
        if history.started is None:
            rounds = plan.policy.max_rounds
            self.emit(RunStarted(plan.run_id, self._model_name, plan.messages, rounds))
        else:
            self.emit(RunResumed(history.resumptions + 1))

    def _answer_recorded(self) -> None:
        """Answers the open calls of recorded rounds that the loop has not reached."""
        left = [each for each in self._history.rounds.values() if each.number > self._reached]
        if not left:
            return
        context = self._context(Dependencies(), None)
        for recorded in left:
            self._reached = recorded.number
            calls = self._round(recorded.number, context, recorded.calls)
            if recorded.turn is not None:
                self._transcript.add_turn(recorded.turn)
                self._unanswered = (calls, recorded.turn.calls)
                self._answer(NOT_BEGUN)
            else:
                calls.abandon(recorded.calls)
                if recorded.partial is not None:
                    self._transcript.add_partial(recorded.partial)
            if recorded.added_text:
                self._transcript.add_text(recorded.added_text)
            if recorded.rejected is not None:
                self._transcript.add_feedback(recorded.rejected.message)

    def _time_left(self) -> float | None:
        """Returns the rest of the time limit; a resumed run has already used part of it."""
        limit = self.plan.policy.timeout
        if limit is None or self._history.started is None:
            return limit
        return max(0.0, limit - (time.monotonic() - self._began))

    def _context(self, dependencies: Dependencies, deadline: float | None) -> RunContext:
        return RunContext(
            run_id=self.plan.run_id,
            tools=self.plan.tools,
            policy=self.plan.policy,
            emit=self.emit,
            approvals=self.plan.approvals,
            dependencies=dependencies,
            slots=asyncio.Semaphore(self.plan.policy.max_parallel),
            deadline=deadline,
            settled=self._settled,
            began=self._began,
        )

    async def _run_rounds(self, context: RunContext) -> StopReason:
        while True:
            number = len(self._transcript.rounds) + 1
            recorded = self._history.rounds.get(number)
            if await self._may_not_ask(number, recorded):
                return self._end_without_budget()
            terms = self._terms(report=recorded is None)
            known = recorded.calls if recorded and recorded.turn else None
            async with self._round(number, context, known) as calls:
                self._reached = number
                reason = await self._run_round(calls, terms, recorded)
            if reason is not None:
                return reason

    def _round(
        self, number: int, context: RunContext, known: Mapping[str, RecordedCall] | None
    ) -> Round:
        return Round(number, self.plan.executor, context, self._repetition, known)

    def _terms(self, *, report: bool) -> Terms:
        """Returns the terms of the next request; with `report`, announces the last request."""
        rounds, repeating = self._transcript.rounds, self._repeating
        policy, rounds_run = self.plan.policy, self._rounds_run
        self._budget = self._used_up()
        used_up = self._budget is not None
        terms = terms_of(
            policy, self._demand, rounds, rounds_run, repeating=repeating, used_up=used_up
        )
        report = report and not self._limit_reported
        self._limit_reported = self._limit_reported or terms.is_last
        if report and terms.is_last and repeating:
            self.emit(Status(REPETITION_STATUS if terms.tools_off else REPETITION_CALL_STATUS))
            log.warning("The same call keeps failing", extra={"run_id": self.plan.run_id})
        elif report and terms.is_last and used_up and rounds_run < policy.max_rounds:
            status = BUDGET_STATUS if terms.tools_off else BUDGET_CALL_STATUS
            self.emit(Status(status.format(self._budget)))
            log.warning("Budget used up", extra={"budget": self._budget, **_spent(self.usage)})
        elif report and terms.is_last:
            self.emit(Status(LIMIT_STATUS if terms.tools_off else LIMIT_CALL_STATUS))
            log.warning("Max tool execution rounds reached", extra={"rounds": self._rounds_run})
        return terms

    @property
    def usage(self) -> Usage:
        """What the run has used so far."""
        return self._transcript.usage

    def _used_up(self) -> BudgetName | None:
        policy = self.plan.policy
        if policy.max_tokens_total is None and policy.max_cost is None:
            return None
        rounds = self._transcript.rounds
        if not (rounds and policy.execute_tools):
            return None
        return policy.used_up(self.usage, rounds[-1].usage)

    async def _may_not_ask(self, number: int, recorded: RecordedRound | None) -> bool:
        """Whether a shared budget forbids another request. The first one was admitted."""
        budget = self.plan.shared_budget
        if budget is None or number == 1 or (recorded is not None and recorded.turn is not None):
            return False
        return await budget.is_used_up()

    async def _spend(self, number: int, usage: Usage) -> bool:
        """Counts a round for the shared budget. Returns whether that is used up."""
        budget = self.plan.shared_budget
        return budget is not None and await budget.spend(number, usage)

    def _end_without_budget(self) -> StopReason:
        """Ends the run because its shared budget is used up."""
        self._budget = "key"
        rounds = self._transcript.rounds
        if rounds and not rounds[-1].message.text:
            recorded = self._history.rounds.get(len(rounds))
            if recorded is None or not recorded.added_text:
                self.emit(TextDelta(NO_BUDGET_ANSWER))
            self._transcript.add_text(NO_BUDGET_ANSWER)
        self.emit(Status(NO_BUDGET_STATUS))
        log.warning("Key budget used up", extra={"run_id": self.plan.run_id})
        return "budget"

    async def _run_round(
        self, calls: Round, terms: Terms, recorded: RecordedRound | None
    ) -> StopReason | None:
        """Asks the model once and handles its turn. Returns a reason if the run ends here."""
        turn = await self._turn(calls, terms, recorded)
        no_budget = await self._spend(calls.number, turn.usage)
        for_caller = self._calls_for_caller(turn)
        policy = self.plan.policy
        step = next_step(
            turn,
            policy,
            self._rounds_run,
            terms.tools_off,
            for_caller,
            is_last=terms.is_last,
            used_up=self._used_up() is not None,
        )
        match step:
            case Step.END:
                await self._refuse(calls, turn, LAST_TURN)
                reason = self._ending(turn, terms, recorded)
                return await self._checked(turn, calls.number, recorded, reason)
            case Step.HAND_BACK:
                self._hand_back(calls, turn, for_caller)
                return "calls"
            case Step.LIMIT:
                self._transcript.add_answers((), pending=turn.calls)
                return self._limit_reached(turn)
            case Step.REFUSE_CALLS:
                self._rounds_run += 1
                await self._refuse(calls, turn, TRUNCATED)
                # The caller has seen its own call start, so it must learn that the turn was cut.
                return "length" if for_caller else None
            case Step.RUN_TOOLS if no_budget and (recorded is None or recorded.turn is None):
                await self._refuse(calls, turn, NO_BUDGET)
                return self._end_without_budget()
            case Step.RUN_TOOLS:
                return await self._run_tools(calls, turn, for_caller, recorded)

    def _limit_reached(self, turn: Turn) -> StopReason:
        """Ends a run that gives no final answer, at the limit of its rounds or of its budget."""
        policy, messages = self.plan.policy, self._transcript.messages
        is_rounds = self._rounds_run >= policy.max_rounds
        self._budget = self._used_up()
        if policy.on_limit == "error" and is_rounds:
            raise RoundLimitExceeded(policy.max_rounds, messages, turn.calls)
        if policy.on_limit == "error":
            raise BudgetExceeded(self._budget or "budget", self.usage, messages, turn.calls)
        return "max_rounds" if is_rounds else "budget"

    async def _turn(self, calls: Round, terms: Terms, recorded: RecordedRound | None) -> Turn:
        """Returns the recorded turn, or asks the model for one."""
        if recorded is not None and recorded.turn is not None:
            self._transcript.add_turn(recorded.turn)
            return recorded.turn
        if recorded is not None:
            calls.abandon(recorded.calls)
        if self._history.refusal is not None:
            raise self._history.refusal
        self.phase = "awaiting_final_response" if self._rounds_run else "awaiting_model_call"
        begins = RoundStarted if recorded is None else RoundRestarted
        self.emit(begins(calls.number, self.phase, terms.tools_off))
        if self._settled is not None:
            await self._settled()
        return await self._ask(calls, terms)

    async def _ask(self, calls: Round, terms: Terms) -> Turn:
        plan, policy, model = self.plan, self.plan.policy, self.plan.model
        assert model is not None
        request = ModelRequest(
            messages=self._transcript.messages,
            tools=self._offered(terms),
            tool_choice=terms.choice,
            parallel_tool_calls=policy.parallel_tool_calls,
            settings=plan.settings,
            extra=plan.extra,
            live=plan.live,
        )
        if notice := plan.notice():
            self.emit(Status(notice))
        may_run = policy.execute_tools and not terms.is_last
        may_run = may_run and self._rounds_run < policy.max_rounds and not self._may_refuse()
        builder, pace = TurnBuilder(), Pace()
        self._ids.begin_turn()
        try:
            async with model.stream(request) as events:
                read = batch_reader(events)
                while batch := await read():
                    for some in at_once(batch):
                        characters = builder.add_texts(some)
                        if characters is None:
                            await self._receive(some, builder, pace, calls if may_run else None)
                        else:  # nearly always
                            self._emit_all(some)
                            if pace.is_over(len(some), characters):
                                await asyncio.sleep(0)
            turn = builder.turn()
        except BaseException as error:
            # Text that arrived before the failure stays readable. Incomplete calls are left out.
            if message := builder.partial():
                self._transcript.add_partial(message)
            if isinstance(error, ModelError) and error.usage is not None:
                usage = self._priced(error.usage)
                self._transcript.usage += usage
                await self._spend(calls.number, usage)
            raise
        self._transcript.add_turn(turn)
        if not turn.usage.all_tokens and self._has_budget:
            log.warning("The model reported no tokens, so budgets do not count this round")
        return turn

    async def _receive(
        self, events: Sequence[ModelEvent], builder: TurnBuilder, pace: Pace, calls: Round | None
    ) -> None:
        """Emits any events of a turn. `calls` starts calls that may start before its end."""
        ready: list[ModelEvent] = []
        for given in events:
            event = self._checked_event(given)
            builder.add(event)
            size = size_of(event)
            is_long = size > LONGEST_DELTA
            if not is_long:
                ready.append(event)
            may_start = calls is not None and type(event) is ToolCallEnded
            pauses = pace.is_over(1, size)
            if not (is_long or may_start or pauses):
                continue
            self._emit_all(ready)
            ready = []
            if is_long:
                await self._emit_long(event)
            if calls is not None and type(event) is ToolCallEnded:
                calls.offer(event.call)
            if pauses:
                await asyncio.sleep(0)
        self._emit_all(ready)

    def _checked_event(self, event: ModelEvent) -> ModelEvent:
        """The event with a call id that is unique in the run, or with the cost of its turn."""
        if type(event) is ToolCallStarted or type(event) is ToolCallEnded:
            return self._ids.with_unique_id(event)
        if type(event) is TurnEnded and self.plan.policy.price is not None:
            return replace(event, usage=self._priced(event.usage))
        return event

    def _priced(self, usage: Usage) -> Usage:
        price = self.plan.policy.price
        return usage if price is None else price.priced(usage)

    async def _emit_long(self, event: ModelEvent) -> None:
        """Emits a long delta in pieces, with a pause after each."""
        for piece in in_short_pieces(event):
            self.emit(piece)
            await asyncio.sleep(0)

    def _may_refuse(self) -> bool:
        """Whether the end of a turn may refuse its calls, so that none may start before it."""
        is_strict = self.plan.policy.on_limit != "final_answer"
        return self.plan.shared_budget is not None or (self._has_budget and is_strict)

    def _offered(self, terms: Terms) -> tuple[Declaration, ...]:
        if terms.offered is None:
            return self.plan.declarations
        return tuple(self.plan.tools[name].declaration for name in terms.offered)

    def _ending(self, turn: Turn, terms: Terms, recorded: RecordedRound | None) -> StopReason:
        reason = END_REASONS[turn.finish]
        if not terms.is_last or reason in ("content_filter", "malformed_call"):
            return reason
        if not turn.message.text and self.plan.output is None:
            if recorded is None or not recorded.added_text:
                self.emit(TextDelta(EMPTY_ANSWER))
            self._transcript.add_text(EMPTY_ANSWER)
        if self._repeating:
            return "repetition"
        is_budget = self._budget is not None and self._rounds_run < self.plan.policy.max_rounds
        return "budget" if is_budget else "max_rounds"

    async def _checked(
        self, turn: Turn, number: int, recorded: RecordedRound | None, reason: StopReason
    ) -> StopReason | None:
        """Validates the answer of a run with a type. None if the model is asked again.

        Raises `OutputInvalid` after the last attempt.
        """
        output, text = self.plan.output, turn.message.text
        if output is None or reason not in ANSWER_REASONS:
            return reason
        rejected = recorded.rejected if recorded else None
        if rejected is None:
            if self._history.refusal is not None:
                raise self._history.refusal
            outcome = await output.check(text)
            if isinstance(outcome, Accepted):
                self._accepted = outcome
                return reason
            if self._rejections >= output.spec.retries or self._budget is not None:
                raise _invalid(text, outcome.errors, self._rejections + 1)
            rejected = OutputRejected(number, outcome.errors, output.feedback(text, outcome.errors))
            self.emit(rejected)
            self.emit(Status(RETRY_STATUS))
        self._rejections += 1
        self._transcript.add_feedback(rejected.message)
        return None

    async def _refuse(self, calls: Round, turn: Turn, why: str) -> None:
        """Answers the turn's calls without running them. Cancels those that started early."""
        if turn.calls:
            self._unanswered = (calls, turn.calls)
            await calls.stop()
            self._answer(why)

    def _hand_back(self, calls: Round, turn: Turn, for_caller: Sequence[FunctionCall]) -> None:
        """Leaves the caller's calls to the caller; in the last turn, refuses any others."""
        for_caller = for_caller if self.plan.policy.execute_tools else turn.calls
        own_calls = _others(turn.calls, for_caller)
        if not own_calls:
            self._transcript.add_answers((), pending=for_caller)
            return
        self._unanswered = (calls, own_calls)
        self._answer(LAST_TURN, pending=for_caller)

    async def _run_tools(
        self,
        calls: Round,
        turn: Turn,
        for_caller: Sequence[FunctionCall],
        recorded: RecordedRound | None,
    ) -> StopReason | None:
        """Runs our calls. If there are calls for the caller, returns them and ends the run."""
        own_calls = _others(turn.calls, for_caller)
        if len(turn.calls) > ITEMS_AT_ONCE:
            await asyncio.sleep(0)
        self._rounds_run += 1
        self.phase = "executing_tools"
        self._unanswered = (calls, turn.calls)
        if recorded is None or not recorded.announced:
            self._announce(own_calls)
        if self._history.refusal is not None and not calls.has_recorded(own_calls):
            raise self._history.refusal
        calls.check_interrupted(own_calls)
        await calls.finish(own_calls)
        self._unanswered = (calls, own_calls)
        await self._transcript.shorten(calls.answers(own_calls, NOT_BEGUN))
        await self._count_failures(own_calls, self._answer(NOT_BEGUN, pending=for_caller))
        return "calls" if for_caller else None

    def _calls_for_caller(self, turn: Turn) -> list[FunctionCall]:
        """The calls of declared tools, which the caller runs."""
        tools = self.plan.tools
        return [call for call in turn.calls if call.name in tools and not tools[call.name].runnable]

    def _answer(self, missing: str, pending: Sequence[FunctionCall] = ()) -> Sequence[ToolAnswer]:
        """Records the answers to the open calls; those that never started get `missing`."""
        assert self._unanswered is not None
        calls, which = self._unanswered
        answers = calls.answers(which, missing)
        self._transcript.add_answers(answers, pending)
        self._unanswered = None
        return answers

    async def _count_failures(
        self, calls: Sequence[FunctionCall], answers: Sequence[ToolAnswer]
    ) -> None:
        """Counts failed calls. The run ends after a round in which every call was blocked."""
        if len(calls) > ITEMS_AT_ONCE:
            await asyncio.sleep(0)
        pairs = list(zip(calls, answers, strict=True))
        failed = [call for call, answer in pairs if answer.failed]
        for place in range(0, len(failed), ITEMS_AT_ONCE):
            self._repetition.record(failed[place : place + ITEMS_AT_ONCE], ())
            if len(failed) > ITEMS_AT_ONCE:
                await asyncio.sleep(0)
        self._repetition.record((), [call for call, answer in pairs if answer.ok])
        self._repeating = all(answer.outcome == "not_run" for answer in answers)

    def _announce(self, own_calls: Sequence[FunctionCall]) -> None:
        self.emit(
            Status(f"Executing {', '.join(dict.fromkeys(call.name for call in own_calls))}...")
        )
        if not log.isEnabledFor(logging.INFO):
            return
        log.info(
            "Tool execution required in stream" if self.plan.live else "Tool execution required",
            extra={"round": self._rounds_run, "tool_count": len(own_calls)},
        )
        for call in own_calls:
            # Arguments may be private, so only the debug level logs them.
            shown = {"arguments": call.arguments} if log.isEnabledFor(logging.DEBUG) else {}
            log.info(
                "Tool call parsed", extra={"tool": call.name, "tool_call_id": call.id, **shown}
            )


def _one_by_one(emit: Callable[[RunEvent], None], events: Sequence[RunEvent]) -> None:
    for event in events:
        emit(event)


def _spent(usage: Usage) -> dict[str, Any]:
    cost = {} if usage.cost is None else {"cost": str(usage.cost)}
    return {"tokens": usage.total_tokens, **cost}


def _invalid(text: str, errors: tuple[str, ...], attempts: int) -> OutputInvalid:
    times = f" after {attempts} attempts" if attempts > 1 else ""
    message = f"the answer is not valid{times}: {'; '.join(errors)}"
    return OutputInvalid(message, text=text, errors=errors)


def _seconds_so_far(history: History) -> float:
    """Returns how long ago an earlier process began the run.

    Only the wall clock measures the time between two processes. If it stepped back, that time
    counts as zero, so that the rest of a time limit never grows.
    """
    if history.last_time is None:
        return 0.0
    return history.seconds + max(0.0, time.time() - history.last_time)


def _others(
    calls: Sequence[FunctionCall], for_caller: Sequence[FunctionCall]
) -> list[FunctionCall]:
    if not for_caller:
        return list(calls)
    known = set(map(id, for_caller))
    return [call for call in calls if id(call) not in known]
