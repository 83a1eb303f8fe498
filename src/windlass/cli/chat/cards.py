"""A card: one tool call as people see it, from the model's first word of it to its answer. Pure."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from windlass.content import FunctionCall
from windlass.events import Outcome, ToolRunEnded, ToolRunProgress

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
    outcome: Outcome | None = None
    attempts: int = 1
    cached: bool = False
    effect_unknown: bool = False

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def arguments(self) -> dict[str, object] | str:
        """The arguments by name, or their text while it cannot be read."""
        return FunctionCall(self.name, self.json).arguments

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON on several lines, or their text as it is."""
        arguments = self.arguments
        if isinstance(arguments, str):
            return arguments
        return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()

    @property
    def result_text(self) -> str:
        """The result whole; an object or a list as JSON on several lines."""
        if not self.result.startswith(("{", "[")):
            return self.result
        try:
            return msgspec.json.format(self.result, indent=2)
        except msgspec.DecodeError:
            return self.result

    def written(self, call: FunctionCall) -> None:
        """The model has written the whole call."""
        self.id, self.name, self.json, self.state = call.id, call.name, call.json, "waiting"

    def run_started(self, call: FunctionCall, time: float) -> None:
        """The tool begins, perhaps with arguments that a person has put in place."""
        self.json, self.state, self.began = call.json, "running", time

    def run_progressed(self, event: ToolRunProgress) -> None:
        if event.progress is not None:
            self.progress = min(max(event.progress, 0.0), 1.0)
        if event.message is not None:
            self.message = event.message

    def run_ended(self, event: ToolRunEnded) -> None:
        response = event.response
        self.outcome, self.state = event.outcome, OUTCOME_STATES[event.outcome]
        self.seconds, self.attempts = event.seconds, event.attempts
        self.cached, self.effect_unknown = event.cached, event.effect_unknown
        self.result = response.text if response.error is None else response.error

    def never_ran(self) -> None:
        """The run is over and the call has no answer: it was cut off, or is not ours to run."""
        self.outcome, self.state, self.result = "not_run", "not run", "never begun"
