"""A card: one tool call as people see it, from the model's first word of it to its answer. Pure."""

import math
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from windlass.content import FunctionCall
from windlass.events import Outcome, ToolRunEnded, ToolRunProgress
from windlass.jsontext import compact_json

__all__ = ["OUTCOME_STATES", "Card", "CardState"]

CardState = Literal[
    "writing",  # the model still writes the arguments
    "waiting",  # for its turn
    "asking",  # for a person's yes
    "running",
    "done",
    "failed",
    "denied",
    "stopped",
    "not run",
]

OUTCOME_STATES: dict[Outcome, CardState] = {
    "ok": "done",
    "error": "failed",
    "invalid_arguments": "failed",
    "unknown_tool": "failed",
    "timeout": "failed",
    "denied": "denied",
    "stopped": "stopped",
    "interrupted": "stopped",
    "not_run": "not run",
}


@dataclass(slots=True)
class Card:
    """What is known of a call so far."""

    name: str
    id: str
    json: str = ""
    state: CardState = "writing"
    began: float = 0.0
    """When the tool itself began (Unix seconds)."""
    seconds: float | None = None
    """How long it took; None until it has ended."""
    progress: float | None = None
    message: str | None = None
    result: str = ""
    value: object = None
    """The result before it became a text."""
    outcome: Outcome | None = None
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False
    crashed: bool = False

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def arguments(self) -> dict[str, object] | str:
        """The arguments by name, or their text while it cannot be read."""
        return FunctionCall(self.name, self.json).arguments

    @property
    def fields(self) -> dict[str, object]:
        """The result's values by name; none if it is not an object."""
        return cast("dict[str, object]", self.value) if isinstance(self.value, dict) else {}

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON on several lines, or their text as it is."""
        arguments = self.arguments
        return arguments if isinstance(arguments, str) else _indented(arguments)

    @property
    def result_text(self) -> str:
        """The result whole; an object or a list as JSON on several lines."""
        return self.result if isinstance(self.value, str) else _indented(self.value)

    def written(self, call: FunctionCall) -> None:
        """The model has written the whole call."""
        self.id, self.name, self.json, self.state = call.id, call.name, call.json, "waiting"

    def run_started(self, call: FunctionCall, time: float) -> None:
        """The tool begins, perhaps with arguments that a person has put in place."""
        self.json, self.state, self.began = call.json, "running", time

    def run_progressed(self, event: ToolRunProgress) -> None:
        if event.progress is not None and math.isfinite(event.progress):
            self.progress = min(max(event.progress, 0.0), 1.0)
        if event.message is not None:
            self.message = event.message

    def run_ended(self, event: ToolRunEnded) -> None:
        response = event.response
        self.outcome, self.state = event.outcome, OUTCOME_STATES[event.outcome]
        self.seconds, self.attempts = event.seconds, event.attempts
        self.cached, self.effect_unknown = event.cached, event.effect_unknown
        self.crashed = event.crashed
        self.value = response.output if response.error is None else response.error
        self.result = response.text if response.error is None else response.error

    def never_ran(self) -> None:
        """The run is over and the call has no answer: it was cut off, or is not ours to run."""
        self.outcome, self.state = "not_run", "not run"
        self.result = self.value = "never begun"


def _indented(value: object) -> str:
    return msgspec.json.format(compact_json(value), indent=2)
