"""Builds a model's turn from its events."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from windlass.content import AnyPart, FunctionCall, Message, Text, Thought, Usage
from windlass.errors import StreamCut
from windlass.events import (
    FinishReason,
    ModelEvent,
    PartReceived,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    joined_logprobs,
)
from windlass.loop.pace import LONGEST_DELTA


class Turn(Struct, frozen=True):
    """A complete turn of the model, its parts in the model's order."""

    message: Message
    calls: tuple[FunctionCall, ...]
    finish: FinishReason
    usage: Usage
    detail: str | None = None
    about: dict[str, Any] = {}
    """The service's metadata of the whole answer, such as `system_fingerprint`."""
    logprobs: dict[str, Any] | None = None
    """The log probabilities of the text's tokens, if they were requested."""


class TurnBuilder:
    """Folds model events into a `Turn`.

    Adjacent deltas of one kind become one part, except signed ones: a signature belongs to exactly
    the delta that carried it.
    """

    def __init__(self) -> None:
        self._parts: list[AnyPart | None] = []
        self._pieces: list[str] = []
        self._kind: type[Text | Thought] = Text
        self._slots: dict[int, int] = {}
        self._end: TurnEnded | None = None
        self._about: dict[str, Any] = {}
        self._logprobs: list[dict[str, Any]] = []

    def add_texts(self, events: Sequence[ModelEvent]) -> int | None:
        """Adds plain texts, which nearly all events are, and returns their number of characters.

        The first may describe the whole answer. Adds nothing and returns None if another event is
        among them, or if they are long.
        """
        first = events[0]
        pieces = [
            each.text
            for each in events
            if type(each) is TextDelta
            and each.signature is None
            and each.extra is None
            and each.logprobs is None
            and (each.about is None or each is first)
        ]
        text = "".join(pieces)
        if self._kind is not Text or len(pieces) < len(events) or len(text) > LONGEST_DELTA:
            return None
        if type(first) is TextDelta and first.about is not None:
            self._describe(first)
        self._pieces.append(text)
        return len(text)

    def add(self, event: ModelEvent) -> None:
        match event:
            case ToolCallDelta():
                pass
            case ToolCallEnded():
                self._parts[self._slot(event.index)] = event.call
            case ToolCallStarted():
                self._describe(event)
                self._slot(event.index)
            case TurnEnded():
                self._describe(event)
                self._end = event
            case TextDelta():
                self._describe(event)
                self._say(Text, event)
            case ThoughtDelta():
                self._describe(event)
                self._say(Thought, event)
            case PartReceived():
                self._place(event.part)

    def partial(self) -> Message | None:
        """Returns what has arrived so far, without the calls, which may be incomplete."""
        self._flush()
        parts = tuple(
            part for part in self._parts if part is not None and not isinstance(part, FunctionCall)
        )
        return Message("assistant", parts) if parts else None

    def turn(self) -> Turn:
        """Returns the turn. Raises `StreamCut` if its end, or the end of a call, is missing."""
        self._flush()
        parts = tuple([part for part in self._parts if part is not None])
        if self._end is None or len(parts) < len(self._parts):
            raise StreamCut
        message = Message("assistant", parts, self._end.message_extra or {})
        return Turn(
            message,
            message.calls,
            self._end.finish,
            self._end.usage,
            self._end.detail,
            self._about,
            joined_logprobs(self._logprobs),
        )

    def _describe(self, event: TextDelta | ThoughtDelta | ToolCallStarted | TurnEnded) -> None:
        if event.about:
            self._about = {**self._about, **event.about}
        if isinstance(event, TextDelta | TurnEnded) and event.logprobs:
            self._logprobs.append(event.logprobs)

    def _say(self, kind: type[Text | Thought], event: TextDelta | ThoughtDelta) -> None:
        if event.signature is None and event.extra is None:
            self._append(kind, event.text)
        else:
            self._place(kind(event.text, event.signature, extra=event.extra or {}))

    def _append(self, kind: type[Text | Thought], text: str) -> None:
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._pieces.append(text)

    def _flush(self) -> None:
        if text := "".join(self._pieces):
            self._parts.append(self._kind(text))
        self._pieces.clear()

    def _place(self, part: AnyPart) -> None:
        self._flush()
        self._parts.append(part)

    def _slot(self, index: int) -> int:
        """Returns the position of call number `index`, which is where the call started."""
        if index not in self._slots:
            self._flush()
            self._slots[index] = len(self._parts)
            self._parts.append(None)
        return self._slots[index]


class UniqueIds:
    """Makes call ids unique in the run: some models count their calls from 0 in every turn."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)
        self._turn: dict[int, str] = {}

    def begin_turn(self) -> None:
        self._turn.clear()

    def with_unique_id(
        self, event: ToolCallStarted | ToolCallEnded
    ) -> ToolCallStarted | ToolCallEnded:
        """Returns the event with an id that no other call of the run has."""
        given = event.id if isinstance(event, ToolCallStarted) else event.call.id
        unique = self._turn.get(event.index)
        if unique is None:
            unique, count = given, 1
            while unique in self._used:
                count += 1
                unique = f"{given}_{count}"
            self._used.add(unique)
            self._turn[event.index] = unique
        if unique == given:
            return event
        if isinstance(event, ToolCallStarted):
            return replace(event, id=unique)
        return replace(event, call=replace(event.call, id=unique))
