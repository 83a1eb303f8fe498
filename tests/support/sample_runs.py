"""Runs and events for logs: one of every kind, and unusual ones."""

from typing import Any

from windlass import ToolContext, tool
from windlass.content import (
    FileData,
    FunctionCall,
    FunctionResponse,
    InlineData,
    Message,
    Opaque,
    Thought,
    Usage,
)
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    OutputRejected,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    TurnEnded,
)
from windlass.runs.event_log import MemoryLog
from windlass.runs.protocol import RunLog
from windlass.runs.records import RunRecord

IMAGE = InlineData(bytes(range(256)) * 40, "image/png")
CALL = FunctionCall("pay", '{"amount": 1}', "call_1", "sig", extra={"gemini": {"x": [1, None]}})
RESPONSE = FunctionResponse("pay", {"output": {"ok": True, "list": [1.5, "ü", None]}}, "call_1")

STARTED = RunStarted(
    "run_1",
    "scripted/model",
    (
        Message.system("Be kind."),
        Message.user("Pay!", IMAGE, FileData("https://example.org/a.png")),
        Message.assistant(Thought("hm", "s"), Opaque("gemini", {"a": 1}), CALL),
        Message.tool([RESPONSE]),
    ),
)
EVERY_KIND: tuple[RunEvent, ...] = (
    STARTED,
    RoundStarted(1, "awaiting_model_call"),
    ThoughtDelta("first", "signed", {"a": 1}),
    TextDelta("Let me — 🙂 see. \u0000 \u2028", None, {"b": [2]}),
    PartReceived(IMAGE),
    PartReceived(Opaque("gemini", {"code": "print(1)"})),
    ToolCallStarted(0, "call_1", "pay"),
    ToolCallDelta(0, '{"amount": 1}'),
    ToolCallEnded(0, CALL),
    TurnEnded("tool_calls", Usage(10, 5, 15, 2, 1), "STOP", {"id": "m"}),
    Status("Executing pay..."),
    ApprovalRequested(CALL, "it costs"),
    ApprovalResolved("call_1", True, {"amount": 2}, "fine"),
    ToolRunStarted(CALL, 1),
    ToolRunProgress("call_1", "pay", 0.5, "half", {"left": [1, 2], "of": "10"}),
    ToolRunEnded(FunctionResponse("pay", {"output": 1}, "call_1", (IMAGE,)), "ok", 0.25, 2, True),
    OutputRejected(1, ("city: required",), Message.user("Your answer is not valid.")),
    RunResumed(1),
    RoundRestarted(2, "awaiting_final_response"),
    RunEnded("error", Usage(20, 10, 30), 2, "the model is gone"),
)


class Surly:
    """A value that raises an error when it is read."""

    def __str__(self) -> str:
        raise RuntimeError("leave me alone")


def odd_progress() -> list[Any]:
    """Values that a tool may pass to `report` although its documentation forbids them."""
    around: list[Any] = []
    around.append(around)
    return [
        float("nan"),
        float("inf"),
        {1, 2},
        b"\xff",
        10**40,
        {1: "a"},
        {(1, 2): 3},
        Surly(),
        around,
    ]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def record(run_id: str = "run_1", created: float = 1_000.0, **fields: Any) -> RunRecord:
    return RunRecord(id=run_id, created=created, **{"model": "scripted/model", **fields})


def begin(log: RunLog, run_id: str = "run_1", created: float = 1_000.0, **fields: Any) -> MemoryLog:
    return log.begin(record(run_id, created, **fields))


async def kept(log: MemoryLog, *events: RunEvent) -> None:
    """Appends the events, and waits until they are stored."""
    for event in events:
        log.append(event)
    if log.settled is not None:
        await log.settled()


async def ended_run(
    log: RunLog, run_id: str = "run_1", created: float = 1_000.0, **fields: Any
) -> None:
    """Stores a short run, from its start to its end."""
    run = begin(log, run_id, created, **fields)
    await kept(run, RunStarted(run_id, "scripted/model", ()), TextDelta("hi"), RunEnded("answer"))


@tool
def weather(city: str) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "sky": "ü", "degrees": 21.5}


@tool(approve=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@tool
async def count(context: ToolContext) -> str:
    """Counts."""
    context.progress(0.5, "half", {"of": [1, 2]})
    raise RuntimeError("lost count")
