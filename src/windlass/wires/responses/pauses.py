"""Where the log of a run pauses, because all that is left to do waits for approvals. Pure.

There a response ends, and its client answers with its decisions in the next request.
"""

from collections.abc import Iterable, Mapping, Sequence

from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RoundRestarted,
    RoundStarted,
    RunEvent,
    ToolCallEnded,
    ToolRunEnded,
    TurnEnded,
)
from windlass.tool import Tool


class PauseFinder:
    """Reads the events of one run in order and notices its pauses."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._turn_over = False
        self._open: set[str] = set()
        """The calls of server tools without a result."""
        self.waiting: dict[str, ApprovalRequested] = {}
        """The requests for approval without a decision, by call id."""

    def add(self, event: RunEvent) -> bool:
        """Whether the run pauses after this event."""
        match event:
            case RoundStarted() | RoundRestarted():
                self._turn_over = False
                self._open.clear()
                self.waiting.clear()
                return False
            case ToolCallEnded(call=call):
                tool = self._tools.get(call.name)
                if tool is None or tool.runnable:
                    self._open.add(call.id)
                return False
            case ApprovalRequested(call=call):
                self.waiting[call.id] = event
            case ApprovalResolved(call_id=call_id):
                self.waiting.pop(call_id, None)
                return False
            case ToolRunEnded(response=response):
                self._open.discard(response.id)
            case TurnEnded():
                self._turn_over = True
            case _:
                return False
        return self._turn_over and bool(self.waiting) and self._open <= self.waiting.keys()


def split_at_pause(
    events: Sequence[RunEvent], tools: Mapping[str, Tool], after: int
) -> tuple[Sequence[RunEvent], Sequence[RunEvent], bool]:
    """The events up to number `after`, those of the response that begins there, and whether it
    ends in a pause."""
    if any(isinstance(event, ApprovalRequested) for event in events):
        finder = PauseFinder(tools)
        for place, event in enumerate(events):
            if finder.add(event) and event.seq > after:
                return events[:after], events[after : place + 1], True
    return (events[:after], events[after:], False) if after else ((), events, False)


def waiting_calls(events: Iterable[RunEvent], tools: Mapping[str, Tool]) -> list[str]:
    """The ids of the calls that wait for a decision after these events."""
    finder = PauseFinder(tools)
    for event in events:
        finder.add(event)
    return list(finder.waiting)
