"""How `windlass runs` displays runs: a list, one run, and the events of a followed run."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from windlass.cli.exit_codes import ending_text
from windlass.cli.formatting import (
    MAX_SHOWN,
    OUTCOMES,
    ExecutingStatus,
    arguments_text,
    clock_time,
    duration,
    outcome_notes,
    reply_to_dict,
    response_text,
    shortened,
    state_of,
    state_tone,
    tokens,
)
from windlass.cli.output import (
    CommandOutput,
    Tone,
    coloured,
    cut,
    one_line,
    table,
    use_colour,
    visible,
)
from windlass.cli.runs.log_file import short_id
from windlass.content import FileData, FunctionCall, InlineData, Message, Usage
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
    ToolCallEnded,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    event_to_json_bytes,
)
from windlass.loop.history import History
from windlass.runs.export import ExportedApproval, ExportedCall, ExportedRound, exported_rounds
from windlass.runs.records import RunRecord, title_of

HEADS = ("ID", "STARTED", "STATE", "ROUNDS", "MODEL", "TITLE")


class ListedRun(Struct):
    """A run of the list; `end` is None until it has ended."""

    record: RunRecord
    interrupted: bool = False
    end: RunEnded | None = None

    @property
    def state(self) -> str:
        return state_of(self.record, interrupted=self.interrupted)


def list_table(runs: Sequence[ListedRun], width: int, zone: tzinfo | None = None) -> str:
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


def list_json(runs: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """Every run with all fields."""
    return [
        {
            **msgspec.structs.asdict(run.record),
            "state": run.state,
            "rounds": run.end.rounds if run.end else None,
            "usage": msgspec.structs.asdict(run.end.usage) if run.end else None,
        }
        for run in runs
    ]


class StyledText(NamedTuple):
    """A text to write: the model's answer goes to stdout, everything else to stderr."""

    text: str
    tone: Tone = "quiet"
    is_answer: bool = False


class EventFormatter:
    """Turns the events of a run into text. An open line of the answer ends before other lines."""

    def __init__(self, run_id: str, began: float = 0.0, *, live: bool = True) -> None:
        """`live`: whether requested approvals can still be given."""
        self._run_id = run_id
        self._began = began
        self._live = live
        self._calls: dict[str, FunctionCall] = {}
        self._status = ExecutingStatus()
        self._line_is_open = False
        self._has_text = False
        """Whether the model has written text in this round."""

    def remember(self, events: Iterable[RunEvent]) -> None:
        """Stores the calls of events that are not shown."""
        for event in events:
            if isinstance(event, ToolCallEnded | ToolRunStarted):
                self._calls[event.call.id] = event.call

    def add(self, event: RunEvent) -> list[StyledText]:
        """The texts for the next event."""
        if isinstance(event, TextDelta):
            return self._text(event.text)
        if isinstance(event, RoundStarted):
            self._has_text = False
            self._status.text_for(event)
            return self._line_ended()
        lines = self._lines(event)
        return [*self._line_ended(), *lines] if lines else []

    def finish(self) -> list[StyledText]:
        """The text that follows the last event."""
        return self._line_ended()

    def _text(self, text: str) -> list[StyledText]:
        if not text:
            return []
        self._line_is_open = not text.endswith("\n")
        self._has_text = True
        return [StyledText(text, "plain", is_answer=True)]

    def _line_ended(self) -> list[StyledText]:
        if not self._line_is_open:
            return []
        self._line_is_open = False
        return [StyledText("\n", "plain", is_answer=True)]

    def _lines(self, event: RunEvent) -> list[StyledText]:
        match event:
            case RunStarted():
                return self._started(event)
            case RunResumed():
                text = "The process exited. Another process resumed the run."
                return [_status_line(text, "warning")]
            case RoundRestarted():
                return self._restarted(event)
            case OutputRejected(errors=errors):
                text = f"The answer of round {event.round} is not valid: {'; '.join(errors)}"
                return [_status_line(shortened(text), "warning")]
            case Status():
                return self._status_lines(event)
            case PartReceived():
                return [_status_line(_label(event))]
            case ToolCallEnded() | ToolRunStarted():
                self.remember([event])
                return self._status_lines(event)
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                return [_status_line("  " + shortened(f"{name}:{share} {message or ''}"))]
            case ToolRunEnded():
                return [self._tool_ended(event)]
            case ApprovalRequested() | ApprovalResolved():
                return [self._approval(event)]
            case RunEnded():
                return self._ended(event)
            case _:
                return []

    def _status_lines(self, event: RunEvent) -> list[StyledText]:
        text = self._status.text_for(event)
        return [_status_line(shortened(text))] if text else []

    def _started(self, event: RunStarted) -> list[StyledText]:
        self._began = event.time
        asked = title_of(event.messages)
        return [_status_line(shortened(f"{event.run_id}, {event.model}: {asked}"))]

    def _restarted(self, event: RoundRestarted) -> list[StyledText]:
        """The mark goes where the superseded text is, so that its reader sees both."""
        mark = f"[superseded: round {event.round} restarts; ignore its text above]"
        had_text, self._has_text = self._has_text, False
        if had_text:
            return [StyledText(f"{mark}\n", "warning", is_answer=True)]
        return [_status_line(f"Round {event.round} restarts.")]

    def _tool_ended(self, event: ToolRunEnded) -> StyledText:
        response = event.response
        call = self._calls.get(response.id)
        notes = outcome_notes(event.outcome, event)
        how = ", ".join([*notes, duration(event.seconds)])
        called = f"{shortened(response.name)} {shortened(call.json) if call else ''}".rstrip()
        result = shortened(response.text if response.error is None else response.error)
        return _status_line(f"  {called} -> {result} ({how})", OUTCOMES[event.outcome][1])

    def _approval(self, event: ApprovalRequested | ApprovalResolved) -> StyledText:
        if isinstance(event, ApprovalRequested):
            call = event.call
            asked = f"  {shortened(call.name)} {shortened(call.json)} needs approval"
            how = f": windlass runs approve {self._run_id} {shortened(call.id)}"
            return _status_line(asked + (how if self._live else ""), "warning")
        call = self._calls.get(event.call_id)
        name = shortened(call.name if call else event.call_id)
        reason = f": {shortened(event.reason)}" if event.reason else ""
        if not event.approved:
            return _status_line(f"  {name}: denied{reason}", "warning")
        changed = " with other arguments" if event.arguments is not None else ""
        return _status_line(f"  {name}: approved{changed}{reason}")

    def _ended(self, event: RunEnded) -> list[StyledText]:
        rounds = f"{event.rounds} {'round' if event.rounds == 1 else 'rounds'}"
        taken = [duration(event.time - self._began)] if self._began else []
        summary = _status_line(", ".join([tokens(event.usage), rounds, *taken]))
        text = ending_text(event.reason, event.error)
        if not text:
            return [summary]
        if event.reason == "error" and not event.usage.total_tokens:
            return [_status_line(shortened(text, None), "bad")]
        tone: Tone = "bad" if event.reason == "error" else "warning"
        return [summary, _status_line(shortened(text, None), tone)]


def _status_line(text: str, tone: Tone = "quiet") -> StyledText:
    return StyledText(f"{text}\n", tone)


def _label(event: PartReceived) -> str:
    match event.part:
        case InlineData(data=data, mime_type=kind):
            return shortened(f"[{kind}, {len(data)} bytes]")
        case FileData(uri=uri):
            return shortened(f"[{uri}]")
        case part:
            return f"[{type(part).__name__}]"


MAX_TEXT = 2_000


def run_details(
    record: RunRecord,
    events: Sequence[RunEvent],
    *,
    interrupted: bool = False,
    full: bool = False,
    zone: tzinfo | None = None,
) -> list[StyledText]:
    """The lines of `windlass runs show`; with `full`, nothing is shortened."""
    return list(_RunDetails(record, full, zone).lines(events, interrupted))


class _RunDetails:
    def __init__(self, record: RunRecord, full: bool, zone: tzinfo | None) -> None:
        self._record = record
        self._full = full
        self._room = None if full else MAX_SHOWN
        self._zone = zone

    def lines(self, events: Sequence[RunEvent], interrupted: bool) -> Iterator[StyledText]:
        rounds = exported_rounds(events)
        yield from self._head(events, rounds, interrupted)
        started = next((event for event in events if isinstance(event, RunStarted)), None)
        if started is not None:
            yield from self._prompt(started.messages)
        for round_ in rounds:
            yield from self._round(round_)
        if interrupted:
            yield _answer_line("")
            yield _answer_line(
                f"Its process has exited: windlass runs resume {self._record.id}", "warning"
            )
        record = self._record
        if record.reason is not None and (text := ending_text(record.reason, record.error)):
            yield _answer_line("")
            yield _answer_line(visible(text), state_tone(record.reason))

    def _head(
        self, events: Sequence[RunEvent], rounds: Sequence[ExportedRound], interrupted: bool
    ) -> Iterator[StyledText]:
        record = self._record
        yield _answer_line(record.id, "strong")
        state = state_of(record, interrupted=interrupted)
        taken = f" after {duration(record.ended - record.created)}" if record.ended else ""
        yield _field("state", f"{state}{taken}", state_tone(state))
        yield _field("model", shortened(record.model))
        yield _field("started", clock_time(record.created, self._zone))
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

    def _prompt(self, messages: Sequence[Message]) -> Iterator[StyledText]:
        yield _answer_line("")
        others = len(messages) - 1
        before = f", after {others} other message{'s' * (others > 1)}" if others > 0 else ""
        yield _answer_line(f"asked{before}", "strong")
        asked = [message.text for message in messages if message.role == "user"]
        yield from self._text(asked[-1] if asked else "")

    def _round(self, round_: ExportedRound) -> Iterator[StyledText]:
        yield _answer_line("")
        facts = [f"at {self._since(round_.started)}"]
        if round_.ended is not None:
            facts.append(f"took {duration(round_.ended - round_.started)}")
            facts.append(tokens(round_.usage))
        yield _answer_line(f"round {round_.number}: {', '.join(facts)}", "strong")
        if round_.superseded:
            yield _answer_line(
                "  superseded: it was interrupted, and the model was asked again", "warning"
            )
        if round_.text:
            yield from self._text(round_.text, "quiet" if round_.superseded else "plain")
        for call in round_.calls:
            yield from self._call(call)

    def _call(self, call: ExportedCall) -> Iterator[StyledText]:
        arguments = shortened(arguments_text(call.arguments), self._room)
        yield _answer_line(f"  {shortened(call.name)} {arguments}", "plain")
        if call.approval is not None:
            yield self._approval(call.approval, call.id)
        if call.outcome is None:
            since = "" if call.started is None else f", started at {self._since(call.started)}"
            yield _answer_line(f"    no result{since}", "warning")
            return
        notes = outcome_notes(call.outcome, call)
        if call.started is not None:
            notes.append(f"at {self._since(call.started)}")
        how = ", ".join([*notes, f"took {duration(call.seconds)}"])
        result = shortened(response_text(call.response), self._room)
        yield _answer_line(f"    -> {result} ({how})", OUTCOMES[call.outcome][1])

    def _approval(self, approval: ExportedApproval, call_id: str) -> StyledText:
        if approval.answered is None:
            if self._record.ended is not None:
                return _answer_line("    not decided", "warning")
            how = f"windlass runs approve {self._record.id} {shortened(call_id)}"
            return _answer_line(f"    needs approval: {how}", "warning")
        decision = "approved" if approval.approved else "denied"
        after = duration(approval.answered - approval.asked)
        reason = f": {shortened(approval.reason)}" if approval.reason else ""
        given = (
            f", with {shortened(arguments_text(approval.arguments))}" if approval.arguments else ""
        )
        tone: Tone = "quiet" if approval.approved else "warning"
        return _answer_line(f"    {decision} after {after}{given}{reason}", tone)

    def _text(self, text: str, tone: Tone = "plain") -> Iterator[StyledText]:
        text = visible(text).strip()
        for line in (text if self._full else cut(text, MAX_TEXT)).split("\n"):
            yield _answer_line(f"  {line}".rstrip(), tone)

    def _since(self, time: float) -> str:
        return duration(time - self._record.created)


def _field(name: str, value: str, tone: Tone = "plain") -> StyledText:
    return _answer_line(f"  {name:<8} {value}", tone)


def _answer_line(text: str, tone: Tone = "quiet") -> StyledText:
    return StyledText(f"{text}\n", tone, is_answer=True)


Form = Literal["text", "json", "events"]


class RunPrinter(Protocol):
    """Prints the events of a run in one form."""

    def show(self, event: RunEvent) -> None: ...

    def close(self) -> None:
        """Prints the rest. The run need not have ended."""
        ...


class TextPrinter:
    """The answer while it arrives, and with `errors` the lines about it."""

    def __init__(
        self, formatter: EventFormatter, output: CommandOutput | None, errors: CommandOutput | None
    ) -> None:
        self._formatter = formatter
        self._output = output
        self._errors = errors

    def show(self, event: RunEvent) -> None:
        self._write(self._formatter.add(event))

    def close(self) -> None:
        self._write(self._formatter.finish())

    def _write(self, texts: Iterable[StyledText]) -> None:
        for text in texts:
            target = self._output if text.is_answer else self._errors
            if target is not None:
                target.text(rendered(text, target))


class EventPrinter:
    """Each event as a line of JSON."""

    def __init__(self, output: CommandOutput, lines: RunPrinter) -> None:
        self._output = output
        self._lines = lines

    def show(self, event: RunEvent) -> None:
        self._output.bytes(event_to_json_bytes(event) + b"\n")
        self._lines.show(event)

    def close(self) -> None:
        self._lines.close()


class JsonPrinter:
    """One object when the run has ended. `before` are earlier events, which are not shown again."""

    def __init__(
        self, output: CommandOutput, lines: RunPrinter, before: Sequence[RunEvent] = ()
    ) -> None:
        self._output = output
        self._lines = lines
        self._events = list(before)

    def show(self, event: RunEvent) -> None:
        self._events.append(event)
        self._lines.show(event)

    def close(self) -> None:
        self._lines.close()
        if self._events and self._events[-1].done:
            self._output.json(result_of(self._events))


def printer_for(
    form: Form,
    formatter: EventFormatter,
    output: CommandOutput,
    *,
    quiet: bool,
    before: Sequence[RunEvent] = (),
) -> RunPrinter:
    errors = None if quiet else CommandOutput(sys.stderr)
    match form:
        case "json":
            return JsonPrinter(output, TextPrinter(formatter, None, errors), before)
        case "events":
            return EventPrinter(output, TextPrinter(formatter, None, errors))
        case "text":
            return TextPrinter(formatter, output, errors)


def result_of(events: Sequence[RunEvent]) -> dict[str, object]:
    """An ended run as `windlass run --json` prints it."""
    end = events[-1]
    if isinstance(end, RunEnded) and end.reason == "error":
        return {"stop_reason": "error", "error": end.error or "the run failed"}
    return reply_to_dict(History(events).reply())


def rendered(styled: StyledText, output: CommandOutput) -> str:
    """The text for this output: safe and coloured on a terminal, unchanged in a pipe."""
    text = visible(styled.text) if output.is_terminal else styled.text
    if not use_colour(output.is_terminal):
        return text
    line = text.rstrip("\n")
    return coloured(line, styled.tone) + text[len(line) :]
