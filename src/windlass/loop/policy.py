"""What happens next: decisions as data and pure functions, no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall, FunctionDeclaration
from windlass.errors import ConfigError
from windlass.events import FinishReason, Outcome, StopReason
from windlass.jsontext import LARGE
from windlass.loop.turn import Turn
from windlass.model import AUTO, NONE, ToolChoice
from windlass.reply import RoundRecord
from windlass.tool import OnInterrupt, Tool

__all__ = [
    "END_REASONS",
    "MEETS_DEMAND",
    "Demand",
    "OnLimit",
    "Policy",
    "Repetition",
    "Step",
    "Terms",
    "demand_of",
    "next_step",
    "terms_of",
]

OnLimit = Literal["final_answer", "error", "return_calls"]

_WORDS = (("on_limit", get_args(OnLimit)), ("on_interrupt", get_args(OnInterrupt)))

LIMIT_STATUS = "Maximum tool execution rounds reached. Generating final response..."
LIMIT_CALL_STATUS = "Maximum tool execution rounds reached. Asking for the required call..."
REPETITION_STATUS = "The same call keeps failing. Generating final response..."
REPETITION_CALL_STATUS = "The same call keeps failing. Asking for the required call..."
EMPTY_ANSWER = "The tools were switched off before the model had an answer, and it gave none."

# Whether tools are needed is told by the calls. This table says what a turn without calls means.
END_REASONS: dict[FinishReason, StopReason] = {
    "stop": "answer",
    "tool_calls": "answer",
    "other": "answer",
    "length": "length",
    "content_filter": "content_filter",
    "malformed_call": "malformed_call",
}

MEETS_DEMAND: dict[Outcome, bool] = {
    "ok": True,
    "error": True,
    "timeout": True,
    "stopped": True,
    "interrupted": True,
    "denied": True,  # demanded again, it would ask the same person again
    "invalid_arguments": False,
    "unknown_tool": False,
    "not_run": False,
}
"""Whether a call that ended like this is the call that `tool_choice` demanded."""


class Policy(Struct, frozen=True, kw_only=True):
    """The limits of a run; each can be given to a client and to each of its verbs."""

    max_rounds: int = 5
    """How many rounds of tools are executed."""
    on_limit: OnLimit = "final_answer"
    """After the last round: one more request with tools off, `RoundLimitExceeded`, or the calls."""
    execute_tools: bool = True
    """False hands every call back to the caller."""
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    """False asks for one call at a time, and runs them one after another if several come."""
    max_parallel: int = 16
    """How many tools of a run may be running at once."""
    timeout: float | None = None
    """Seconds that the whole run may take."""
    tool_timeout: float | None = 300.0
    """Seconds that a tool may take that has no `timeout` of its own."""
    approval_timeout: float = 300.0
    """Seconds that an approval may take; then the answer is no."""
    max_result_chars: int = 50_000
    """The longest result that the model is given; longer ones lose their middle."""
    max_repeats: int = 3
    """How often one call may fail with the same arguments before it is no longer run."""
    on_interrupt: OnInterrupt = "tell_model"
    """What becomes of a call that the end of the process cut off; idempotent ones run again."""
    expose_errors: bool = False
    """Whether the model reads the texts of all exceptions of tools, not of `ToolError` alone."""

    def __post_init__(self) -> None:
        for name, least in (("max_rounds", 0), ("max_parallel", 1), ("max_repeats", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name, words in _WORDS:
            if getattr(self, name) not in words:
                first, second, third = words
                said = f"{first!r}, {second!r} or {third!r}"
                raise ConfigError(f"{name} must be {said}, not {getattr(self, name)!r}")

    def tools_off(self, rounds_run: int) -> bool:
        """Whether the next request is the forced last one."""
        return (
            self.execute_tools and self.on_limit == "final_answer" and rounds_run >= self.max_rounds
        )


class Demand(Struct, frozen=True):
    """A call that `tool_choice` requires."""

    names: tuple[str, ...]
    """A call of any of these tools meets it."""
    is_for_caller: bool
    """Whether the caller runs these tools: then the run has to end with such a call."""

    def is_met(self, rounds: Iterable[RoundRecord]) -> bool:
        """A call for the caller ends its run: no later request finds that demand met."""
        return not self.is_for_caller and any(
            MEETS_DEMAND[answer.outcome] and answer.response.name in self.names
            for record in rounds
            for answer in record.answers
        )


def demand_of(policy: Policy, tools: Mapping[str, Tool]) -> Demand | None:
    """The call that a run has to make; None if `tool_choice` requires none.

    Where the choice allows tools of the caller, only a call of one of those meets it.
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
    """What one request lets the model call."""

    choice: ToolChoice
    offered: tuple[str, ...] | None = None
    """The tools that the model is offered; None means all."""

    @property
    def is_last(self) -> bool:
        """Whether the run ends with this request, because no tool of its own may run any more."""
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
) -> Terms:
    """The terms of the next request.

    A forced choice holds until its demand is met. After the last round of tools, an open demand
    for a call of the caller's leaves the model nothing but the caller's tools.
    """
    exhausted = repeating or (policy.execute_tools and rounds_run >= policy.max_rounds)
    if demand is not None and demand.is_for_caller and exhausted:
        return Terms(ToolChoice("required", demand.names), demand.names)
    if repeating or policy.tools_off(rounds_run):
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
    LIMIT = "the calls come after the last round"


def next_step(
    turn: Turn,
    policy: Policy,
    rounds_run: int,
    tools_off: bool,
    theirs: Sequence[FunctionCall] = (),
    *,
    is_last: bool = False,
) -> Step:
    """What the loop does with the turn; `theirs` are its calls of tools that the caller runs.

    `tools_off` and `is_last` are those of the request's `Terms`.
    """
    if not turn.calls or tools_off or turn.finish in ("content_filter", "malformed_call"):
        return Step.END
    if not policy.execute_tools:
        return Step.HAND_BACK
    hands_back = bool(theirs) and (is_last or len(theirs) == len(turn.calls))
    if not hands_back and rounds_run >= policy.max_rounds and policy.on_limit != "final_answer":
        return Step.LIMIT
    if is_last and not theirs:
        return Step.END
    # A turn that the output limit cut may hold half a call: none of its calls is run.
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
            key = _same(call)
            self._failures[key] = self._failures.get(key, 0) + 1
        if not self._failures:
            return
        for call in succeeded:
            self._failures.pop(_same(call), None)

    def blocks(self, call: FunctionCall) -> bool:
        # The common run has no failure at all: do not canonicalise its calls.
        return bool(self._failures) and self._failures.get(_same(call), 0) >= self._limit


def _same(call: FunctionCall) -> tuple[str, str]:
    """Two calls are the same if their arguments are, however they are written.

    Of large arguments the text is compared: to read and write them would take long.
    """
    if len(call.json) > LARGE:
        return call.name, call.json
    if isinstance(arguments := call.arguments, str):
        return call.name, arguments
    return call.name, msgspec.json.encode(arguments, order="deterministic").decode()
