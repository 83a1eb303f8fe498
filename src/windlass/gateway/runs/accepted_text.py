"""Holds back the text of an answer with a schema until the answer is known to be valid. Pure."""

from collections.abc import Iterable

from windlass.events import (
    OutputRejected,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    StopReason,
    TextDelta,
    ToolCallStarted,
)
from windlass.runs.origin import Origin

_WITHOUT_ANSWER: tuple[StopReason, ...] = ("error", "stopped", "deadline", "malformed_call")


def holds_back(origin: Origin) -> bool:
    """Whether the text of a run is held back, because an invalid answer is requested again."""
    return origin.output is not None and origin.output.retries > 0


class AcceptedText:
    """Passes the events of a run in order, without the text of rejected answers.

    From the first text of a round on, events wait until the answer is accepted or rejected.
    """

    def __init__(self) -> None:
        self._waiting: list[RunEvent] = []

    def passed(self, events: Iterable[RunEvent]) -> list[RunEvent]:
        """Returns the events that may pass now."""
        return [each for event in events for each in self._passed(event)]

    def _passed(self, event: RunEvent) -> list[RunEvent]:
        match event:
            case TextDelta():
                self._waiting.append(event)
                return []
            case OutputRejected() | RoundRestarted():
                return [*self._released(rejected=True), event]
            case RunEnded(reason=reason):
                return [*self._released(rejected=reason in _WITHOUT_ANSWER), event]
            case ToolCallStarted() | RoundStarted():
                return [*self._released(), event]
            case _ if self._waiting:
                self._waiting.append(event)
                return []
            case _:
                return [event]

    def _released(self, *, rejected: bool = False) -> list[RunEvent]:
        waiting, self._waiting = self._waiting, []
        if not rejected:
            return waiting
        return [event for event in waiting if not isinstance(event, TextDelta)]
