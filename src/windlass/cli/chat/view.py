"""A run as blocks to show, with a card for each tool call. Pure: events in, blocks out.

A block that is `done` does not change any more and can be printed; the others are redrawn.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never, cast

import msgspec

from windlass.cli.exit_codes import explanation
from windlass.content import FileData, FunctionCall, InlineData, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    Outcome,
    OutputRejected,
    PartReceived,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    Status,
    StopReason,
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
from windlass.jsontext import compact_json

LIMIT_OPTIONS = ("--max-rounds",)
CardState = Literal[
    "writing",  # the model is writing the arguments
    "waiting",  # for its turn
    "asking",  # for approval
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
    """One tool call as it is displayed."""

    name: str
    id: str
    json: str = ""
    state: CardState = "writing"
    began: float = 0.0
    """When the tool started (Unix seconds)."""
    seconds: float | None = None
    """None until the call has ended."""
    progress: float | None = None
    message: str | None = None
    result: str = ""
    value: object = None
    """The result as a value."""
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
        """The arguments by name, or their text while it is not valid JSON."""
        return FunctionCall(self.name, self.json).arguments

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the result; empty if it is not an object."""
        return cast("dict[str, object]", self.value) if isinstance(self.value, dict) else {}

    @property
    def arguments_text(self) -> str:
        """The arguments as indented JSON, or their text."""
        arguments = self.arguments
        return arguments if isinstance(arguments, str) else _indented(arguments)

    @property
    def result_text(self) -> str:
        """The complete result; objects and lists as indented JSON."""
        return self.result if isinstance(self.value, str) else _indented(self.value)

    def written(self, call: FunctionCall) -> None:
        """The model has finished writing the call."""
        self.id, self.name, self.json, self.state = call.id, call.name, call.json, "waiting"

    def run_started(self, call: FunctionCall, time: float) -> None:
        """The tool starts, with the arguments of the approval if it changed them."""
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
        """The run has ended and the call has no result: it did not start or runs elsewhere."""
        self.outcome, self.state = "not_run", "not run"
        self.result = self.value = "not started"


def _indented(value: object) -> str:
    return msgspec.json.format(compact_json(value), indent=2)


@dataclass(slots=True)
class Speech:
    """Markdown text of the model: one or more paragraphs."""

    text: str = ""
    done: bool = False


@dataclass(slots=True)
class Thinking:
    """Thoughts of the model."""

    began: float
    text: str = ""
    seconds: float | None = None

    @property
    def done(self) -> bool:
        return self.seconds is not None


@dataclass(slots=True)
class CardRow:
    """The calls of one turn."""

    cards: list[Card] = field(default_factory=list[Card])
    whole: bool = False
    """Whether the turn has ended, so that no call is added."""

    @property
    def done(self) -> bool:
        return self.whole and all(card.ended for card in self.cards)


@dataclass(slots=True)
class Notice:
    """A message of the chat itself."""

    text: str
    tone: Literal["quiet", "warning", "error"] = "quiet"
    done: bool = True


Block: TypeAlias = Speech | Thinking | CardRow | Notice


class RunView:
    """The blocks of one run in order, with its round, usage and times."""

    def __init__(self, max_rounds: int) -> None:
        self.blocks: list[Block] = []
        self.max_rounds = max_rounds
        self.model = ""
        self.round = 0
        self.began = 0.0
        self.seconds: float | None = None
        """None while the run is active."""
        self.usage = Usage()
        self.reason: StopReason | None = None
        self._turn: dict[int, Card] = {}
        self._now = 0.0

    @property
    def cards(self) -> list[Card]:
        rows = [block for block in self.blocks if isinstance(block, CardRow)]
        return [card for row in rows for card in row.cards]

    @property
    def thoughts(self) -> str:
        return "\n\n".join(b.text for b in self.blocks if isinstance(b, Thinking))

    @property
    def budget(self) -> str:
        """The current round and the round limit."""
        if self.round > self.max_rounds:
            return "last round, without tools"
        return f"round {self.round} of {self.max_rounds}"

    def add(self, event: RunEvent) -> None:
        """Adds the next event of the run."""
        self._now = event.time
        match event:
            case TextDelta(text=text):
                self._add_text(text)
            case ThoughtDelta(text=text):
                self._add_thought(text)
            case PartReceived():
                self.say(_label(event))
            case RunStarted(model=model):
                self.model, self.began = model, event.time
            case RoundStarted(round=number):
                self.round, self._turn = number, {}
            case RoundRestarted(round=number):
                self.round, self._turn = number, {}
                self.say("The round restarts: ignore its earlier text.", "warning")
            case RunResumed():
                self.say("Another process resumed the run.")
            case Status(message=message):
                # The cards of running tools show more than the status.
                if all(card.ended for card in self.cards):
                    self.say(message)
            case OutputRejected(errors=errors):
                self.say(f"The answer is not valid: {'; '.join(errors)}", "warning")
            case TurnEnded():
                self._end_turn()
            case RunEnded():
                self._end_run(event)
            case _:
                self._add_to_cards(event)

    def say(self, text: str, tone: Literal["quiet", "warning", "error"] = "quiet") -> None:
        """Adds a notice."""
        self._end_speech()
        self.blocks.append(Notice(text, tone))

    def _add_to_cards(
        self,
        event: ToolCallStarted
        | ToolCallDelta
        | ToolCallEnded
        | ToolRunStarted
        | ToolRunProgress
        | ToolRunEnded
        | ApprovalRequested
        | ApprovalResolved,
    ) -> None:
        match event:
            case ToolCallStarted(index=index, id=call_id, name=name):
                self._add_card(index, Card(name, call_id))
            case ToolCallDelta(index=index, json=json):
                if index in self._turn:
                    self._turn[index].json += json
            case ToolCallEnded(index=index, call=call):
                if index not in self._turn:
                    self._add_card(index, Card(call.name, call.id))
                self._turn[index].written(call)
            case ToolRunStarted(call=call):
                if card := self._open_card(call.id):
                    card.run_started(call, event.time)
            case ToolRunProgress(call_id=call_id):
                if card := self._open_card(call_id):
                    card.run_progressed(event)
            case ToolRunEnded(response=response):
                if card := self._open_card(response.id):
                    card.run_ended(event)
            case ApprovalRequested(call=call):
                if card := self._open_card(call.id):
                    card.state = "asking"
            case ApprovalResolved(call_id=call_id):
                if card := self._open_card(call_id):
                    card.state = "waiting"
            case _:
                assert_never(event)

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self._end_thinking()
        if not isinstance(speech := self._last(), Speech) or speech.done:
            speech = Speech()
            self.blocks.append(speech)
        speech.text += text
        # Complete paragraphs are done: the redrawn part stays short.
        if "\n" in text:
            self._split_done(speech)

    def _split_done(self, speech: Speech) -> None:
        length = complete_length(speech.text)
        if length:
            rest = Speech(speech.text[length:])
            speech.text, speech.done = speech.text[:length], True
            self.blocks.append(rest)

    def _add_thought(self, text: str) -> None:
        if not text:
            return
        if isinstance(speech := self._last(), Speech):
            speech.done = True
        if not isinstance(thinking := self._last(), Thinking) or thinking.done:
            thinking = Thinking(self._now)
            self.blocks.append(thinking)
        thinking.text += text

    def _add_card(self, index: int, card: Card) -> None:
        self._end_speech()
        self._turn[index] = card
        if not isinstance(row := self._last(), CardRow) or row.whole:
            row = CardRow()
            self.blocks.append(row)
        row.cards.append(card)

    def _open_card(self, call_id: str) -> Card | None:
        """The first card with this id and no result: two calls of a model can have the same id."""
        return next((card for card in self.cards if card.id == call_id and not card.ended), None)

    def _last(self) -> Block | None:
        return self.blocks[-1] if self.blocks else None

    def _end_speech(self) -> None:
        self._end_thinking()
        if isinstance(speech := self._last(), Speech):
            speech.done = True

    def _end_thinking(self) -> None:
        if isinstance(thinking := self._last(), Thinking) and not thinking.done:
            thinking.seconds = max(self._now - thinking.began, 0.0)

    def _end_turn(self) -> None:
        self._end_speech()
        for block in self.blocks:
            if isinstance(block, CardRow):
                block.whole = True

    def _end_run(self, event: RunEnded) -> None:
        for card in self.cards:
            if not card.ended:
                card.never_ran()
        self._end_turn()
        self.reason, self.usage, self.round = event.reason, event.usage, event.rounds or self.round
        self.seconds = max(event.time - self.began, 0.0)
        if event.error is not None:
            self.say(event.error, "error")
        match event.reason:
            case "answer" | "error":
                pass
            case "stopped":
                self.say(f"Stopped. {_effects(self.cards)}".strip(), "warning")
            case reason:
                text = explanation(reason, LIMIT_OPTIONS)
                self.say(f"{text[0].upper()}{text[1:]}.", "warning")


def _effects(cards: list[Card]) -> str:
    """Which tools may have had an effect before the stop, and which had none."""
    unknown = [card.name for card in cards if card.effect_unknown]
    cancelled = [c.name for c in cards if c.outcome == "stopped" and not c.effect_unknown]
    not_started = [card.name for card in cards if card.outcome == "not_run"]
    parts = (
        ("May have had an effect", unknown),
        ("Cancelled without an effect", cancelled),
        ("Not started", not_started),
    )
    return " ".join(f"{text}: {', '.join(names)}." for text, names in parts if names)


def _label(event: PartReceived) -> str:
    match event.part:
        case InlineData(data=data, mime_type=kind):
            return f"[{kind}, {len(data)} bytes]"
        case FileData(uri=uri):
            return f"[{uri}]"
        case part:
            return f"[{type(part).__name__}]"


_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_CONTINUES = re.compile(r"\s|[-*+>|]|\d+[.)]")
"""The start of a line that may belong to the block above: list items can have gaps between them."""


def complete_length(text: str) -> int:
    """The length of the complete paragraphs at the beginning of Markdown that is still growing.

    An incomplete line is not considered: it may become an item of a list.
    """
    settled = position = 0
    fence: str | None = None
    after_blank = False
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        if fence is None and after_blank and line.strip() and not _CONTINUES.match(line):
            settled = position
        fence = _fence_after(line, fence)
        after_blank = not line.strip()
        position += len(line)
    return settled


def _fence_after(line: str, fence: str | None) -> str | None:
    """The code fence that is open after this line, if any."""
    marker = _FENCE.match(line)
    if marker is None:
        return fence
    found = marker.group(1)
    if fence is None:
        return found
    closes = found.startswith(fence) and not line[marker.end() :].strip()
    return None if closes else fence
