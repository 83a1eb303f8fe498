"""What happens next: decisions as data and pure functions, no I/O."""

from collections.abc import Iterable
from enum import Enum
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from windlass.content import FunctionCall
from windlass.errors import ConfigError
from windlass.events import FinishReason, StopReason
from windlass.loop.turn import Turn
from windlass.model import AUTO, NONE, ToolChoice
from windlass.tool import OnInterrupt

__all__ = ["END_REASONS", "OnLimit", "Policy", "Repetition", "Step", "next_step"]

OnLimit = Literal["final_answer", "error", "return_calls"]

_WORDS = (("on_limit", get_args(OnLimit)), ("on_interrupt", get_args(OnInterrupt)))

LIMIT_STATUS = "Maximum tool execution rounds reached. Generating final response..."
REPETITION_STATUS = "The same call keeps failing. Generating final response..."
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

    def choice(self, rounds_run: int, tools_off: bool) -> ToolChoice:
        """A forced call is forced once: kept up, it would never let the model answer."""
        if tools_off:
            return NONE
        return AUTO if rounds_run and self.tool_choice.mode == "required" else self.tool_choice


class Step(Enum):
    """What the loop does with a turn."""

    END = "the turn is the last one"
    RUN_TOOLS = "run the calls, then ask again"
    REFUSE_CALLS = "answer the calls without running them, then ask again"
    HAND_BACK = "the calls are the caller's to run"
    LIMIT = "the calls come after the last round"


def next_step(turn: Turn, policy: Policy, rounds_run: int, tools_off: bool) -> Step:
    if not turn.calls or tools_off or turn.finish in ("content_filter", "malformed_call"):
        return Step.END
    if not policy.execute_tools:
        return Step.HAND_BACK
    if rounds_run >= policy.max_rounds:
        return Step.LIMIT
    # A turn that the output limit cut may hold half a call: none of its calls is run.
    return Step.REFUSE_CALLS if turn.finish == "length" else Step.RUN_TOOLS


class Repetition:
    """Counts how often each call has failed with the same arguments."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures: dict[tuple[str, str], int] = {}

    def record(self, failed: Iterable[FunctionCall], succeeded: Iterable[FunctionCall]) -> None:
        for call in failed:
            key = _same(call)
            self._failures[key] = self._failures.get(key, 0) + 1
        for call in succeeded:
            self._failures.pop(_same(call), None)

    def blocks(self, call: FunctionCall) -> bool:
        # The common run has no failure at all: do not canonicalise its calls.
        return bool(self._failures) and self._failures.get(_same(call), 0) >= self._limit


def _same(call: FunctionCall) -> tuple[str, str]:
    """Two calls are the same if their arguments are, however they are written."""
    if isinstance(arguments := call.arguments, str):
        return call.name, arguments
    return call.name, msgspec.json.encode(arguments, order="deterministic").decode()
