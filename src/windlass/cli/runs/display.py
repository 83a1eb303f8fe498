"""How `windlass runs` displays runs: a list, one run, and the events of a followed run."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from windlass.cli.formatting import (
    OUTCOMES,
    SHORT,
    Executing,
    arguments_text,
    clock_time,
    duration,
    ended_words,
    outcome_notes,
    reply_to_dict,
    response_text,
    shortened,
    state_of,
    state_tone,
    tokens,
)
from windlass.cli.output import Output, Tone, cut, may_colour, one_line, painted, table, visible
from windlass.cli.runs.log_file import short_id
from windlass.content import FileData, FunctionCall, InlineData, Message, Usage
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
    TextDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    event_to_json_bytes,
)
from windlass.loop.history import History
from windlass.runs.export import ToldApproval, ToldCall, ToldRound, told_rounds
from windlass.runs.records import RunRecord, title_of

HEADS = ("ID", "BEGUN", "STATE", "ROUNDS", "MODEL", "TITLE")


class Listed(Struct):
    """A run: its record, whether its process is gone, and its end if there is one."""

    record: RunRecord
    cut_off: bool = False
    end: RunEnded | None = None

    @property
    def state(self) -> str:
        return state_of(self.record, cut_off=self.cut_off)


def list_table(runs: Sequence[Listed], width: int, zone: tzinfo | None = None) -> str:
    rows = [
        (
            short_id(run.record.id),
            clock_time(run.record.created, zone),
            run.state,
            str(run.end.rounds) if run.end else "",
            one_line(run.record.model),
            one_line(run.record.title),
        )
        for run in runs
    ]
    return table(HEADS, rows, width)


def list_json(runs: Sequence[Listed]) -> list[dict[str, Any]]:
    """Every run with every field, whatever is known of it."""
    return [
        {
            **msgspec.structs.asdict(run.record),
            "state": run.state,
            "rounds": run.end.rounds if run.end else None,
            "usage": msgspec.structs.asdict(run.end.usage) if run.end else None,
        }
        for run in runs
    ]


class Piece(NamedTuple):
    """Something to write. What the model says goes to stdout, and all else is told about it."""

    text: str
    tone: Tone = "quiet"
    is_answer: bool = False


class Teller:
    """Tells one run to people. A line of the answer is ended before anything else is said."""

    def __init__(self, run_id: str, began: float = 0.0, *, live: bool = True) -> None:
        """`live` says that an approval which is asked for can still be given."""
        self._run_id = run_id
        self._began = began
        self._live = live
        self._calls: dict[str, FunctionCall] = {}
        self._executing = Executing()
        self._line_is_open = False
        self._has_spoken = False
        """In this round."""

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Knows the calls of events that are not told."""
        for event in events:
            if isinstance(event, ToolCallEnded | ToolRunStarted):
                self._calls[event.call.id] = event.call

    def tell(self, event: RunEvent) -> list[Piece]:
        """What to write of the next event."""
        if isinstance(event, TextDelta):
            return self._speak(event.text)
        if isinstance(event, RoundStarted):
            self._has_spoken = False
            self._executing.said(event)
            return self._line_ended()
        pieces = self._told(event)
        return [*self._line_ended(), *pieces] if pieces else []

    def finish(self) -> list[Piece]:
        """What to write when no more comes, for whatever reason."""
        return self._line_ended()

    def _speak(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._line_is_open = not text.endswith("\n")
        self._has_spoken = True
        return [Piece(text, "plain", is_answer=True)]

    def _line_ended(self) -> list[Piece]:
        if not self._line_is_open:
            return []
        self._line_is_open = False
        return [Piece("\n", "plain", is_answer=True)]

    def _told(self, event: RunEvent) -> list[Piece]:
        match event:
            case RunStarted():
                return self._begin(event)
            case RunResumed():
                said = "The process was gone. Another one goes on with the run."
                return [_status_line(said, "warning")]
            case RoundRestarted():
                return self._restart(event)
            case Status():
                return self._execute(event)
            case PartReceived():
                return [_status_line(_label(event))]
            case ToolCallEnded() | ToolRunStarted():
                self.remember([event])
                return self._execute(event)
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                return [_status_line("  " + shortened(f"{name}:{share} {message or ''}"))]
            case ToolRunEnded():
                return [self._tool_ended(event)]
            case ApprovalRequested() | ApprovalResolved():
                return [self._approval(event)]
            case RunEnded():
                return self._end(event)
            case _:
                return []

    def _execute(self, event: RunEvent) -> list[Piece]:
        words = self._executing.said(event)
        return [_status_line(shortened(words))] if words else []

    def _begin(self, event: RunStarted) -> list[Piece]:
        self._began = event.time
        asked = title_of(event.messages)
        return [_status_line(shortened(f"{event.run_id}, {event.model}: {asked}"))]

    def _restart(self, event: RoundRestarted) -> list[Piece]:
        """The mark stands where the text stands: whoever reads that reads this too."""
        said = f"[superseded: round {event.round} is asked again, and what it said above is void]"
        spoken, self._has_spoken = self._has_spoken, False
        if spoken:
            return [Piece(f"{said}\n", "warning", is_answer=True)]
        return [_status_line(f"Round {event.round} is asked again.")]

    def _tool_ended(self, event: ToolRunEnded) -> Piece:
        response = event.response
        call = self._calls.get(response.id)
        notes = outcome_notes(
            event.outcome,
            cached=event.cached,
            attempts=event.attempts,
            effect_unknown=event.effect_unknown,
            crashed=event.crashed,
        )
        how = ", ".join([*notes, duration(event.seconds)])
        called = f"{shortened(response.name)} {shortened(call.json) if call else ''}".rstrip()
        result = shortened(response.text if response.error is None else response.error)
        return _status_line(f"  {called} -> {result} ({how})", OUTCOMES[event.outcome][1])

    def _approval(self, event: ApprovalRequested | ApprovalResolved) -> Piece:
        if isinstance(event, ApprovalRequested):
            call = event.call
            asked = f"  {shortened(call.name)} {shortened(call.json)} waits for an approval"
            how = f": windlass runs approve {self._run_id} {shortened(call.id)}"
            return _status_line(asked + (how if self._live else ""), "warning")
        call = self._calls.get(event.call_id)
        name = shortened(call.name if call else event.call_id)
        reason = f": {shortened(event.reason)}" if event.reason else ""
        if not event.approved:
            return _status_line(f"  {name}: denied{reason}", "warning")
        changed = " with other arguments" if event.arguments is not None else ""
        return _status_line(f"  {name}: approved{changed}{reason}")

    def _end(self, event: RunEnded) -> list[Piece]:
        rounds = f"{event.rounds} {'round' if event.rounds == 1 else 'rounds'}"
        taken = [duration(event.time - self._began)] if self._began else []
        summary = _status_line(", ".join([tokens(event.usage), rounds, *taken]))
        words = ended_words(event.reason, event.error)
        if not words:
            return [summary]
        if event.reason == "error" and not event.usage.total_tokens:
            return [_status_line(shortened(words, None), "bad")]
        tone: Tone = "bad" if event.reason == "error" else "warning"
        return [summary, _status_line(shortened(words, None), tone)]


def _status_line(text: str, tone: Tone = "quiet") -> Piece:
    return Piece(f"{text}\n", tone)


def _label(event: PartReceived) -> str:
    match event.part:
        case InlineData(data=data, mime_type=kind):
            return shortened(f"[{kind}, {len(data)} bytes]")
        case FileData(uri=uri):
            return shortened(f"[{uri}]")
        case part:
            return f"[{type(part).__name__}]"


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
            yield _answer_line("")
            yield _answer_line(
                f"Its process is gone: windlass runs resume {self._record.id}", "warning"
            )
        record = self._record
        if record.reason is not None and (words := ended_words(record.reason, record.error)):
            yield _answer_line("")
            yield _answer_line(visible(words), state_tone(record.reason))

    def _head(
        self, events: Sequence[RunEvent], rounds: Sequence[ToldRound], cut_off: bool
    ) -> Iterator[Piece]:
        record = self._record
        yield _answer_line(record.id, "strong")
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
        yield _answer_line("")
        others = len(messages) - 1
        before = f", after {others} other message{'s' * (others > 1)}" if others > 0 else ""
        yield _answer_line(f"asked{before}", "strong")
        asked = [message.text for message in messages if message.role == "user"]
        yield from self._text(asked[-1] if asked else "")

    def _round(self, round_: ToldRound) -> Iterator[Piece]:
        yield _answer_line("")
        facts = [f"at {self._since(round_.started)}"]
        if round_.ended is not None:
            facts.append(f"took {duration(round_.ended - round_.started)}")
            facts.append(tokens(round_.usage))
        yield _answer_line(f"round {round_.number}: {', '.join(facts)}", "strong")
        if round_.superseded:
            yield _answer_line(
                "  superseded: it was cut off, and the model was asked again", "warning"
            )
        if round_.text:
            yield from self._text(round_.text, "quiet" if round_.superseded else "plain")
        for call in round_.calls:
            yield from self._call(call)

    def _call(self, call: ToldCall) -> Iterator[Piece]:
        arguments = shortened(arguments_text(call.arguments), self._room)
        yield _answer_line(f"  {shortened(call.name)} {arguments}", "plain")
        if call.approval is not None:
            yield self._approval(call.approval, call.id)
        if call.outcome is None:
            since = "" if call.started is None else f", begun at {self._since(call.started)}"
            yield _answer_line(f"    no answer{since}", "warning")
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
        yield _answer_line(f"    -> {result} ({how})", OUTCOMES[call.outcome][1])

    def _approval(self, approval: ToldApproval, call_id: str) -> Piece:
        if approval.answered is None:
            if self._record.ended is not None:
                return _answer_line("    nobody decided about it", "warning")
            how = f"windlass runs approve {self._record.id} {shortened(call_id)}"
            return _answer_line(f"    waits for an approval: {how}", "warning")
        words = "approved" if approval.approved else "denied"
        after = duration(approval.answered - approval.asked)
        reason = f": {shortened(approval.reason)}" if approval.reason else ""
        given = (
            f", with {shortened(arguments_text(approval.arguments))}" if approval.arguments else ""
        )
        tone: Tone = "quiet" if approval.approved else "warning"
        return _answer_line(f"    {words} after {after}{given}{reason}", tone)

    def _text(self, text: str, tone: Tone = "plain") -> Iterator[Piece]:
        text = visible(text).strip()
        for line in (text if self._full else cut(text, _TEXT_ROOM)).split("\n"):
            yield _answer_line(f"  {line}".rstrip(), tone)

    def _since(self, time: float) -> str:
        return duration(time - self._record.created)


def _field(name: str, value: str, tone: Tone = "plain") -> Piece:
    return _answer_line(f"  {name:<8} {value}", tone)


def _answer_line(text: str, tone: Tone = "quiet") -> Piece:
    return Piece(f"{text}\n", tone, is_answer=True)


Form = Literal["text", "json", "events"]


class Stage(Protocol):
    """One form in which a run is shown."""

    def show(self, event: RunEvent) -> None: ...

    def close(self) -> None:
        """No more comes, whether or not the run has ended."""
        ...


class TextStage:
    """The answer as it comes, and with `errors` what is told about it."""

    def __init__(self, teller: Teller, output: Output | None, errors: Output | None) -> None:
        self._teller = teller
        self._output = output
        self._errors = errors

    def show(self, event: RunEvent) -> None:
        self._write(self._teller.tell(event))

    def close(self) -> None:
        self._write(self._teller.finish())

    def _write(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            where = self._output if piece.is_answer else self._errors
            if where is not None:
                where.text(fit(piece, where))


class EventStage:
    """Each event as a line of JSON."""

    def __init__(self, output: Output, told: Stage) -> None:
        self._output = output
        self._told = told

    def show(self, event: RunEvent) -> None:
        self._output.bytes(event_to_json_bytes(event) + b"\n")
        self._told.show(event)

    def close(self) -> None:
        self._told.close()


class JsonStage:
    """One object when the run has ended. `before` are the events that are not shown again."""

    def __init__(self, output: Output, told: Stage, before: Sequence[RunEvent] = ()) -> None:
        self._output = output
        self._told = told
        self._events = list(before)

    def show(self, event: RunEvent) -> None:
        self._events.append(event)
        self._told.show(event)

    def close(self) -> None:
        self._told.close()
        if self._events and self._events[-1].done:
            self._output.json(result_of(self._events))


def stage_for(
    form: Form, teller: Teller, output: Output, *, quiet: bool, before: Sequence[RunEvent] = ()
) -> Stage:
    """The stage of that form: text, json or events."""
    errors = None if quiet else Output(sys.stderr)
    match form:
        case "json":
            return JsonStage(output, TextStage(teller, None, errors), before)
        case "events":
            return EventStage(output, TextStage(teller, None, errors))
        case "text":
            return TextStage(teller, output, errors)


def result_of(events: Sequence[RunEvent]) -> dict[str, object]:
    """What an ended run came to, as `windlass run --json` writes it."""
    end = events[-1]
    if isinstance(end, RunEnded) and end.reason == "error":
        return {"stop_reason": "error", "error": end.error or "the run failed"}
    return reply_to_dict(History(events).reply())


def fit(piece: Piece, output: Output) -> str:
    """A terminal is not steered by what models say; a pipe gets their text as it is."""
    text = visible(piece.text) if output.is_terminal else piece.text
    if not may_colour(output.is_terminal):
        return text
    line = text.rstrip("\n")
    return painted(line, piece.tone) + text[len(line) :]
