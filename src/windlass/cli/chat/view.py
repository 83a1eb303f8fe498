"""What a run looks like: its events in, blocks to be shown out. Pure: no terminal, no clock.

A block that is `done` never changes again and can be printed for good; the others are drawn anew
until they are.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from windlass.cli.chat.cards import Card
from windlass.cli.chat.paragraphs import settled_length
from windlass.content import FileData, InlineData, Usage
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
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

__all__ = ["ENDINGS", "Block", "CardRow", "Notice", "Speech", "Thinking", "View"]

ENDINGS: dict[StopReason, str | None] = {
    "answer": None,
    "calls": "The model asks for tools that cannot be run here.",
    "max_rounds": "The round limit was reached; --max-rounds sets it.",
    "repetition": "The model kept repeating a call that keeps failing.",
    "length": "The model's output limit cut the answer.",
    "content_filter": "The provider withheld the answer.",
    "malformed_call": "The provider could not read its own model's call.",
    "deadline": "The run's time was up.",
    "stopped": None,  # what was stopped is said call by call
    "error": None,  # the error says it
}
"""What is said of a run that ended without a plain answer."""


@dataclass(slots=True)
class Speech:
    """Markdown of the model: one paragraph or more."""

    text: str = ""
    done: bool = False


@dataclass(slots=True)
class Thinking:
    """What the model says to itself."""

    began: float
    text: str = ""
    seconds: float | None = None

    @property
    def done(self) -> bool:
        return self.seconds is not None


@dataclass(slots=True)
class CardRow:
    """The calls of one turn, which may run side by side."""

    cards: list[Card] = field(default_factory=list[Card])
    whole: bool = False
    """Whether the turn is over, so that no other call joins."""

    @property
    def done(self) -> bool:
        return self.whole and all(card.ended for card in self.cards)


@dataclass(slots=True)
class Notice:
    """A sentence of ours."""

    text: str
    tone: Literal["quiet", "warning", "error"] = "quiet"
    done: bool = True


Block: TypeAlias = Speech | Thinking | CardRow | Notice


class View:
    """The blocks of one run, in order, and where the run stands."""

    def __init__(self, max_rounds: int) -> None:
        self.blocks: list[Block] = []
        self.max_rounds = max_rounds
        self.model = ""
        self.round = 0
        self.began = 0.0
        self.seconds: float | None = None
        """How long the run took; None while it goes."""
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
        """Which round it is, of how many."""
        if self.round > self.max_rounds:
            return "last round, tools are off"
        return f"round {self.round} of {self.max_rounds}"

    def add(self, event: RunEvent) -> None:
        """Takes the next event of the run."""
        self._now = event.time
        match event:
            case TextDelta(text=text):
                self._speak(text)
            case ThoughtDelta(text=text):
                self._think(text)
            case PartReceived():
                self.say(_label(event))
            case RunStarted(model=model):
                self.model, self.began = model, event.time
            case RoundStarted(round=number):
                self.round, self._turn = number, {}
            case RoundRestarted(round=number):
                self.round, self._turn = number, {}
                self.say("The model is asked again: what it said last does not count.", "warning")
            case RunResumed():
                self.say("The run goes on in another process.")
            case Status(message=message):
                # Of tools that are about to run, their cards say more.
                if all(card.ended for card in self.cards):
                    self.say(message)
            case TurnEnded():
                self._end_turn()
            case RunEnded():
                self._end_run(event)
            case _:
                self._add_to_cards(event)

    def say(self, text: str, tone: Literal["quiet", "warning", "error"] = "quiet") -> None:
        """Adds a sentence of ours."""
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
                self._deal(index, Card(name, call_id))
            case ToolCallDelta(index=index, json=json):
                if index in self._turn:
                    self._turn[index].json += json
            case ToolCallEnded(index=index, call=call):
                if index not in self._turn:
                    self._deal(index, Card(call.name, call.id))
                self._turn[index].written(call)
            case ToolRunStarted(call=call):
                if card := self._open(call.id):
                    card.run_started(call, event.time)
            case ToolRunProgress(call_id=call_id):
                if card := self._open(call_id):
                    card.run_progressed(event)
            case ToolRunEnded(response=response):
                if card := self._open(response.id):
                    card.run_ended(event)
            case ApprovalRequested(call=call):
                if card := self._open(call.id):
                    card.state = "asking"
            case ApprovalResolved(call_id=call_id):
                if card := self._open(call_id):
                    card.state = "waiting"
            case _:
                assert_never(event)

    def _speak(self, text: str) -> None:
        if not text:
            return
        self._end_thinking()
        if not isinstance(speech := self._last(), Speech) or speech.done:
            speech = Speech()
            self.blocks.append(speech)
        speech.text += text
        # Paragraphs that are whole are done: what is drawn anew stays short.
        if "\n" in text:
            self._settle(speech)

    def _settle(self, speech: Speech) -> None:
        length = settled_length(speech.text)
        if length:
            rest = Speech(speech.text[length:])
            speech.text, speech.done = speech.text[:length], True
            self.blocks.append(rest)

    def _think(self, text: str) -> None:
        if not text:
            return
        if isinstance(speech := self._last(), Speech):
            speech.done = True
        if not isinstance(thinking := self._last(), Thinking) or thinking.done:
            thinking = Thinking(self._now)
            self.blocks.append(thinking)
        thinking.text += text

    def _deal(self, index: int, card: Card) -> None:
        self._end_speech()
        self._turn[index] = card
        if not isinstance(row := self._last(), CardRow) or row.whole:
            row = CardRow()
            self.blocks.append(row)
        row.cards.append(card)

    def _open(self, call_id: str) -> Card | None:
        """The card of a call without an answer; a confused model may give two calls one id."""
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
        if (said := ENDINGS[event.reason]) is not None:
            self.say(said, "warning")
        if event.reason == "stopped":
            self.say(f"Stopped. {_aftermath(self.cards)}".strip(), "warning")


def _aftermath(cards: list[Card]) -> str:
    """What a stop has done to the tools: surely nothing, or something that nobody can know."""
    unknown = [card.name for card in cards if card.effect_unknown]
    cancelled = [c.name for c in cards if c.outcome == "stopped" and not c.effect_unknown]
    unbegun = [card.name for card in cards if card.outcome == "not_run"]
    parts = (
        ("May have had an effect", unknown),
        ("Cancelled without one", cancelled),
        ("Never begun", unbegun),
    )
    return " ".join(f"{said}: {', '.join(names)}." for said, names in parts if names)


def _label(event: PartReceived) -> str:
    match event.part:
        case InlineData(data=data, mime_type=kind):
            return f"[{kind}, {len(data)} bytes]"
        case FileData(uri=uri):
            return f"[{uri}]"
        case part:
            return f"[{type(part).__name__}]"
