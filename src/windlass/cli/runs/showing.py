"""`windlass runs show`: one run in words, from what was asked to how it ended. Pure."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from windlass.cli.runs.telling import Piece
from windlass.cli.runs.tones import Tone
from windlass.cli.runs.words import (
    OUTCOMES,
    SHORT,
    arguments_text,
    clock_time,
    duration,
    ended_words,
    outcome_notes,
    response_text,
    shortened,
    state_of,
    state_tone,
    tokens,
)
from windlass.cli.visible import cut, visible
from windlass.content import Message, Usage
from windlass.events import RunEvent, RunResumed, RunStarted
from windlass.runs.export import ToldApproval, ToldCall, ToldRound, told_rounds
from windlass.runs.records import RunRecord

__all__ = ["shown"]

_TEXT_ROOM = 2_000


def shown(
    record: RunRecord,
    events: Sequence[RunEvent],
    *,
    cut_off: bool = False,
    full: bool = False,
    zone: tzinfo | None = None,
) -> list[Piece]:
    """The run, line by line; with `full`, nothing is shortened."""
    return list(_Shower(record, full, zone).lines(events, cut_off))


class _Shower:
    def __init__(self, record: RunRecord, full: bool, zone: tzinfo | None) -> None:
        self._record = record
        self._full = full
        self._room = None if full else SHORT
        self._zone = zone

    def lines(self, events: Sequence[RunEvent], cut_off: bool) -> Iterator[Piece]:
        rounds = told_rounds(events)
        yield from self._head(events, rounds, cut_off)
        started = next((event for event in events if isinstance(event, RunStarted)), None)
        if started is not None:
            yield from self._asked(started.messages)
        for round_ in rounds:
            yield from self._round(round_)
        if cut_off:
            yield _line("")
            yield _line(f"Its process is gone: windlass runs resume {self._record.id}", "warning")
        record = self._record
        if record.reason is not None and (words := ended_words(record.reason, record.error)):
            yield _line("")
            yield _line(visible(words), state_tone(record.reason))

    def _head(
        self, events: Sequence[RunEvent], rounds: Sequence[ToldRound], cut_off: bool
    ) -> Iterator[Piece]:
        record = self._record
        yield _line(record.id, "strong")
        state = state_of(record, cut_off=cut_off)
        taken = f" after {duration(record.ended - record.created)}" if record.ended else ""
        yield _field("state", f"{state}{taken}", state_tone(state))
        yield _field("model", shortened(record.model))
        yield _field("begun", clock_time(record.created, self._zone))
        if record.owner:
            yield _field("key", shortened(record.owner))
        if record.chat:
            yield _field("chat", shortened(record.chat))
        resumed = [event.time for event in events if isinstance(event, RunResumed)]
        if resumed:
            times = ", ".join(clock_time(each, self._zone) for each in resumed)
            yield _field("resumed", times, "warning")
        yield _field("used", tokens(sum((each.usage for each in rounds), Usage())))
        yield _field("log", f"{record.events} events, {record.size} bytes")

    def _asked(self, messages: Sequence[Message]) -> Iterator[Piece]:
        yield _line("")
        others = len(messages) - 1
        before = f", after {others} other message{'s' * (others > 1)}" if others > 0 else ""
        yield _line(f"asked{before}", "strong")
        asked = [message.text for message in messages if message.role == "user"]
        yield from self._text(asked[-1] if asked else "")

    def _round(self, round_: ToldRound) -> Iterator[Piece]:
        yield _line("")
        facts = [f"at {self._since(round_.started)}"]
        if round_.ended is not None:
            facts.append(f"took {duration(round_.ended - round_.started)}")
            facts.append(tokens(round_.usage))
        yield _line(f"round {round_.number}: {', '.join(facts)}", "strong")
        if round_.superseded:
            yield _line("  superseded: it was cut off, and the model was asked again", "warning")
        if round_.text:
            yield from self._text(round_.text, "quiet" if round_.superseded else "plain")
        for call in round_.calls:
            yield from self._call(call)

    def _call(self, call: ToldCall) -> Iterator[Piece]:
        arguments = shortened(arguments_text(call.arguments), self._room)
        yield _line(f"  {shortened(call.name)} {arguments}", "plain")
        if call.approval is not None:
            yield self._approval(call.approval, call.id)
        if call.outcome is None:
            since = "" if call.started is None else f", begun at {self._since(call.started)}"
            yield _line(f"    no answer{since}", "warning")
            return
        notes = outcome_notes(
            call.outcome,
            cached=call.cached,
            attempts=call.attempts,
            effect_unknown=call.effect_unknown,
            crashed=call.crashed,
        )
        if call.started is not None:
            notes.append(f"at {self._since(call.started)}")
        how = ", ".join([*notes, f"took {duration(call.seconds)}"])
        result = shortened(response_text(call.response), self._room)
        yield _line(f"    -> {result} ({how})", OUTCOMES[call.outcome][1])

    def _approval(self, approval: ToldApproval, call_id: str) -> Piece:
        if approval.answered is None:
            if self._record.ended is not None:
                return _line("    nobody decided about it", "warning")
            how = f"windlass runs approve {self._record.id} {shortened(call_id)}"
            return _line(f"    waits for an approval: {how}", "warning")
        words = "approved" if approval.approved else "denied"
        after = duration(approval.answered - approval.asked)
        reason = f": {shortened(approval.reason)}" if approval.reason else ""
        given = (
            f", with {shortened(arguments_text(approval.arguments))}" if approval.arguments else ""
        )
        tone: Tone = "quiet" if approval.approved else "warning"
        return _line(f"    {words} after {after}{given}{reason}", tone)

    def _text(self, text: str, tone: Tone = "plain") -> Iterator[Piece]:
        text = visible(text).strip()
        for line in (text if self._full else cut(text, _TEXT_ROOM)).split("\n"):
            yield _line(f"  {line}".rstrip(), tone)

    def _since(self, time: float) -> str:
        return duration(time - self._record.created)


def _field(name: str, value: str, tone: Tone = "plain") -> Piece:
    return _line(f"  {name:<8} {value}", tone)


def _line(text: str, tone: Tone = "quiet") -> Piece:
    return Piece(f"{text}\n", tone, is_answer=True)
