"""A run that crashes its process each time it is resumed is given up."""

from windlass.content import FunctionCall, FunctionResponse
from windlass.events import (
    ApprovalRequested,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.loop.history import History
from windlass.runs.planning import MAX_RESUMPTIONS, resume_refusal

LOOK = FunctionCall("look", "{}", "a")
CUT = ToolRunEnded(FunctionResponse("look", {"error": "interrupted"}, "a"), "interrupted")
TURN: list[RunEvent] = [ToolCallStarted(0, "a", "look"), ToolCallEnded(0, LOOK)]


def resumed(*between: RunEvent, times: int = MAX_RESUMPTIONS) -> list[RunEvent]:
    """A run that was resumed this often, with these events after each."""
    return [event for number in range(1, times + 1) for event in (RunResumed(number), *between)]


STARTED: list[RunEvent] = [
    RunStarted("run_1", "scripted/model", ()),
    RoundStarted(1, "awaiting_model_call"),
]


def test_a_run_that_is_interrupted_without_progress_ends_with_an_error() -> None:
    again = RoundRestarted(1, "awaiting_model_call")
    assert resume_refusal(History([*STARTED, *resumed(again)]), ())
    assert (
        resume_refusal(History([*STARTED, *resumed(again, times=MAX_RESUMPTIONS - 1)]), ()) is None
    )


def test_a_tool_that_kills_the_process_during_the_turn_ends_its_run_with_an_error() -> None:
    again = RoundRestarted(1, "awaiting_model_call")
    cut = resumed(CUT, again, *TURN, ToolRunStarted(LOOK, 1))
    assert resume_refusal(History([*STARTED, *cut]), ())


def test_a_run_that_waits_for_an_approval_is_never_ended() -> None:
    asked = [*STARTED, *TURN, TurnEnded("tool_calls"), Status("..."), ApprovalRequested(LOOK)]
    assert resume_refusal(History([*asked, *resumed(times=100)]), ()) is None


def test_a_tool_that_kills_the_process_while_another_waits_for_approval_ends_its_run() -> None:
    other = FunctionCall("read", "{}", "b")
    turn = [*TURN, ToolCallStarted(1, "b", "read"), ToolCallEnded(1, other)]
    asked = [*STARTED, *turn, TurnEnded("tool_calls"), ApprovalRequested(LOOK)]
    assert resume_refusal(History([*asked, *resumed(ToolRunStarted(other, 1))]), ())
