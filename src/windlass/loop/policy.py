"""The policy of a run: its limits, and pure functions that decide what happens next."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, FunctionDeclaration, Usage
from windlass.errors import ConfigError
from windlass.events import BudgetName, FinishReason, Outcome, StopReason
from windlass.jsontext import LARGE
from windlass.loop.turn import Turn
from windlass.model import AUTO, NONE, ToolChoice
from windlass.pricing import Price
from windlass.reply import RoundRecord
from windlass.tool import OnInterrupt, Tool

OnLimit = Literal["final_answer", "error", "return_calls"]

_WORDS = (("on_limit", get_args(OnLimit)), ("on_interrupt", get_args(OnInterrupt)))

LIMIT_STATUS = "Maximum tool execution rounds reached. Generating final response..."
LIMIT_CALL_STATUS = "Maximum tool execution rounds reached. Asking for the required call..."
BUDGET_STATUS = "The budget ({}) is used up. Generating final response..."
BUDGET_CALL_STATUS = "The budget ({}) is used up. Asking for the required call..."
REPETITION_STATUS = "The same call keeps failing. Generating final response..."
REPETITION_CALL_STATUS = "The same call keeps failing. Asking for the required call..."
NO_BUDGET_STATUS = "The budget of this key is used up. The run ends here."
NO_BUDGET_ANSWER = "The budget of this key was used up before the model had an answer."
EMPTY_ANSWER = "The tools were switched off before the model had an answer, and it gave none."

# A turn with calls needs tools, whatever its finish reason. This table covers turns without calls.
END_REASONS: dict[FinishReason, StopReason] = {
    "stop": "answer",
    "tool_calls": "answer",
    "other": "answer",
    "length": "length",
    "content_filter": "content_filter",
    "malformed_call": "malformed_call",
}

ANSWER_REASONS: frozenset[StopReason] = frozenset({"answer", "max_rounds", "budget", "repetition"})
"""The stop reasons with an answer. A run with a type validates this answer."""

MEETS_DEMAND: dict[Outcome, bool] = {
    "ok": True,
    "error": True,
    "timeout": True,
    "stopped": True,
    "interrupted": True,
    "denied": True,  # a second demand would ask the same person again
    "invalid_arguments": False,
    "unknown_tool": False,
    "not_run": False,
}
"""Whether a call that ended like this is the call that `tool_choice` demanded."""


class Policy(Struct, frozen=True, kw_only=True):
    """The limits of a run: options of a client and of each of its methods."""

    max_rounds: int = 5
    """The maximum number of tool rounds."""
    on_limit: OnLimit = "final_answer"
    """After the last round: one more request with tools off, `RoundLimitExceeded`, or the calls.
    The same for a used up budget, whose error is `BudgetExceeded`."""
    max_tokens_total: int | None = None
    """The budget of tokens of the whole run, input and output, as the provider counts them."""
    max_cost: Decimal | None = None
    """The budget of the whole run's cost. It needs a `price`."""
    price: Price | None = None
    """The price of the model; None if it is not known."""
    execute_tools: bool = True
    """False returns every call to the caller."""
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    """False asks for one call at a time, and runs several calls one after another."""
    max_parallel: int = 16
    """How many tools of a run may run at once."""
    timeout: float | None = None
    """The time limit of the whole run, in seconds."""
    tool_timeout: float | None = 300.0
    """The time limit of a tool without its own `timeout`, in seconds."""
    approval_timeout: float = 300.0
    """How long to wait for an approval, in seconds; then the call is denied."""
    max_result_chars: int = 50_000
    """The maximum length of a result for the model; the middle of longer results is removed."""
    max_repeats: int = 3
    """How often a call may fail with the same arguments before it is blocked."""
    on_interrupt: OnInterrupt = "tell_model"
    """What to do with a call that an exited process interrupted; idempotent tools run again."""
    expose_errors: bool = False
    """Whether the model sees the texts of all tool exceptions, not only of `ToolError`."""

    def __post_init__(self) -> None:
        for name, least in (("max_rounds", 0), ("max_parallel", 1), ("max_repeats", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"timeout must be above 0 seconds, not {self.timeout:g}")
        limit = self.max_tokens_total
        if limit is not None and limit < 1:
            raise ConfigError(f"max_tokens_total must be at least 1, not {limit}")
        if self.max_cost is not None and self.max_cost <= 0:
            raise ConfigError(f"max_cost must be above 0, not {self.max_cost}")
        for name, words in _WORDS:
            if getattr(self, name) not in words:
                first, second, third = words
                allowed = f"{first!r}, {second!r} or {third!r}"
                raise ConfigError(f"{name} must be {allowed}, not {getattr(self, name)!r}")

    def tools_off(self, rounds_run: int) -> bool:
        """Whether the next request is the last one, with tools off."""
        return (
            self.execute_tools and self.on_limit == "final_answer" and rounds_run >= self.max_rounds
        )

    def used_up(self, spent: Usage, last: Usage) -> BudgetName | None:
        """The budget that is used up, or that one more round like the `last` would exceed.

        Only a run with a final answer looks ahead: its round without tools may exceed the budget.
        """
        ahead = spent + last if self.on_limit == "final_answer" else spent
        tokens, cost = self.max_tokens_total, self.max_cost
        if tokens is not None and (spent.all_tokens >= tokens or ahead.all_tokens > tokens):
            return "max_tokens_total"
        if cost is not None and ((spent.cost or 0) >= cost or (ahead.cost or 0) > cost):
            return "max_cost"
        return None


class Demand(Struct, frozen=True):
    """A call that `tool_choice` requires."""

    names: tuple[str, ...]
    """A call of any of these tools meets the demand."""
    is_for_caller: bool
    """Whether the caller runs these tools: then the run must end with such a call."""

    def is_met(self, rounds: Iterable[RoundRecord]) -> bool:
        """Whether a call met the demand. A call for the caller ends the run, so it never counts."""
        return not self.is_for_caller and any(
            MEETS_DEMAND[answer.outcome] and answer.response.name in self.names
            for record in rounds
            for answer in record.answers
        )


def demand_of(policy: Policy, tools: Mapping[str, Tool]) -> Demand | None:
    """Returns the call that a run must make; None if `tool_choice` requires none.

    If the choice allows tools of the caller, only a call of one of those meets the demand.
    """
    choice = policy.tool_choice
    if choice.mode != "required":
        return None
    names = [
        name
        for name, tool in tools.items()
        if (not choice.names or name in choice.names)
        and isinstance(tool.declaration, FunctionDeclaration)
    ]
    callers = [name for name in names if not (policy.execute_tools and tools[name].runnable)]
    return Demand(tuple(callers or names), bool(callers))


class Terms(Struct, frozen=True):
    """Which tools the model may call in one request."""

    choice: ToolChoice
    offered: tuple[str, ...] | None = None
    """The tools that the request offers; None means all."""

    @property
    def is_last(self) -> bool:
        """Whether this is the run's last request, because none of its own tools may run now."""
        return self.offered is not None

    @property
    def tools_off(self) -> bool:
        return self.offered == ()


def terms_of(
    policy: Policy,
    demand: Demand | None,
    rounds: Iterable[RoundRecord],
    rounds_run: int,
    *,
    repeating: bool = False,
    used_up: bool = False,
) -> Terms:
    """Returns the terms of the next request.

    A forced choice holds until its demand is met. After the last tool round, if a call for the
    caller is still demanded, the request offers only the caller's tools. `used_up` means that a
    budget is used up, which has the same effect as the last round.
    """
    exhausted = repeating or used_up or (policy.execute_tools and rounds_run >= policy.max_rounds)
    if demand is not None and demand.is_for_caller and exhausted:
        return Terms(ToolChoice("required", demand.names), demand.names)
    if repeating or used_up or policy.tools_off(rounds_run):
        return Terms(NONE, ())
    if demand is None or not demand.is_met(rounds):
        return Terms(policy.tool_choice)
    allowed = policy.tool_choice.names if policy.tool_choice.only else ()
    return Terms(ToolChoice("auto", allowed) if allowed else AUTO)


class Step(Enum):
    """What the loop does with a turn."""

    END = "the turn is the last one"
    RUN_TOOLS = "run the calls, then ask again"
    REFUSE_CALLS = "answer the calls without running them, then ask again"
    HAND_BACK = "the caller runs its calls; any others are answered without running them"
    LIMIT = "the calls come after the last round, or after the budget"


def next_step(
    turn: Turn,
    policy: Policy,
    rounds_run: int,
    tools_off: bool,
    for_caller: Sequence[FunctionCall] = (),
    *,
    is_last: bool = False,
    used_up: bool = False,
) -> Step:
    """What the loop does with the turn; `for_caller` are its calls of tools that the caller runs.

    `tools_off` and `is_last` are those of the request's `Terms`; `used_up` is whether a budget is
    used up after the turn.
    """
    if not turn.calls or tools_off or turn.finish in ("content_filter", "malformed_call"):
        return Step.END
    if not policy.execute_tools:
        return Step.HAND_BACK
    hands_back = bool(for_caller) and (is_last or len(for_caller) == len(turn.calls))
    exhausted = used_up or rounds_run >= policy.max_rounds
    if not hands_back and exhausted and policy.on_limit != "final_answer":
        return Step.LIMIT
    if is_last and not for_caller:
        return Step.END
    # A turn that hit the output limit may end in an incomplete call: none of its calls is run.
    if turn.finish == "length":
        return Step.REFUSE_CALLS
    return Step.HAND_BACK if hands_back else Step.RUN_TOOLS


class Repetition:
    """Counts how often each call has failed with the same arguments."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures: dict[tuple[str, str], int] = {}

    def record(self, failed: Iterable[FunctionCall], succeeded: Iterable[FunctionCall]) -> None:
        for call in failed:
            key = _call_key(call)
            self._failures[key] = self._failures.get(key, 0) + 1
        if not self._failures:
            return
        for call in succeeded:
            self._failures.pop(_call_key(call), None)

    def blocks(self, call: FunctionCall) -> bool:
        # Most runs have no failure: skip computing the key.
        return bool(self._failures) and self._failures.get(_call_key(call), 0) >= self._limit


def _call_key(call: FunctionCall) -> tuple[str, str]:
    """Returns a key that is equal for calls with equal arguments, however they are formatted.

    Large arguments are compared as text, since parsing them takes long.
    """
    if len(call.json) > LARGE:
        return call.name, call.json
    if isinstance(arguments := call.arguments, str):
        return call.name, arguments
    return call.name, msgspec.json.encode(arguments, order="deterministic").decode()
