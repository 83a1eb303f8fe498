"""Judges an ended run by its log and by the ledgers of its tools."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.crash.scenarios import IDEMPOTENT, ROUNDS, WHEN_CUT, answer_to

from windlass.content import FunctionCall
from windlass.events import (
    ApprovalRequested,
    ApprovalResolved,
    RoundRestarted,
    RoundStarted,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    TextDelta,
    ToolCallEnded,
    ToolRunEnded,
    ToolRunStarted,
    TurnEnded,
)
from windlass.runs.planning import MAX_RESUMPTIONS
from windlass.runs.service import CLIENT_LOST

SAID = {"ok": "ok", "interrupted": "interrupted", "denied": "denied", "error": "interrupted"}
"""How the model reads each outcome. The only error is that of a lost worker."""
ATTEMPTS = 3
"""How many workers are tried, one after another, where a call may be repeated."""


class Circumstances(NamedTuple):
    """The decisions about the runs of a drill, and which process has each tool."""

    decisions: dict[str, bool]
    """By call key."""
    stops: Collection[str] = ()
    """Runs that a client has stopped."""
    remote: Collection[str] = ()
    """The tools of workers."""
    stored_stops: Mapping[str, int] = {}
    """Runs whose stop waited in the log, and their number of events at that time."""
    faults: bool = False
    """Whether the log could not be written at times."""
    takeovers: bool = False
    """Whether the runs of a paused process are taken over: it may begin a call when it continues,
    and only then find that the run is no longer its own."""

    def may_begin(self, name: str) -> int:
        """How often a tool may begin for one start of it in the log."""
        return ATTEMPTS if name in self.remote and WHEN_CUT[name] == "retry" else 1

    def may_begin_late(self, name: str, end: ToolRunEnded) -> bool:
        """Whether the tool may begin after the call was answered: the answer must allow for it."""
        if name in self.remote and end.outcome == "stopped":
            return True  # the call was being sent to its worker when its run was stopped
        return self.takeovers and (end.effect_unknown or WHEN_CUT[name] == "retry")

    def lost(self, name: str, end: ToolRunEnded) -> bool:
        """Whether the call was lost with its worker, and the model got that error."""
        told = "interrupted, effect unknown: the worker" in str(end.response.error)
        known = end.effect_unknown == (name not in IDEMPOTENT)
        return name in self.remote and end.outcome == "error" and told and known


class Entry(NamedTuple):
    """When a tool began or ended, according to its ledger."""

    what: str
    time: float


class Ledgers:
    """The entries of all ledgers, by call key."""

    def __init__(self, folder: Path) -> None:
        self._entries: dict[str, list[Entry]] = {}
        for ledger in folder.iterdir():
            for line in ledger.read_text().splitlines():
                what, key, time = line.split()
                self._entries.setdefault(key, []).append(Entry(what, float(time)))

    def times(self, key: str, what: str) -> list[float]:
        return [entry.time for entry in self._entries.get(key, ()) if entry.what == what]

    @property
    def keys(self) -> set[str]:
        return set(self._entries)


class CallRecord:
    """One call in the log: each event of it, by its place there."""

    def __init__(self, call: FunctionCall) -> None:
        self.call = call
        self.starts: list[int] = []
        self.ends: list[tuple[int, ToolRunEnded]] = []
        self.in_whole_turn = False


class RunLedger:
    """A run's log, read independently of the loop."""

    def __init__(self, events: Sequence[RunEvent]) -> None:
        self.events = events
        started = events[0]
        assert isinstance(started, RunStarted)
        self.run_id = started.run_id
        self.prompt = started.messages[-1].text
        self.calls: dict[str, CallRecord] = {}
        self.resumed = [n for n, event in enumerate(events) if isinstance(event, RunResumed)]
        asked: list[str] = []
        for place, event in enumerate(events):
            match event:
                case RoundStarted() | RoundRestarted():
                    asked = []
                case ToolCallEnded(call=call):
                    assert call.id not in self.calls, "two calls have one id"
                    self.calls[call.id] = CallRecord(call)
                    asked.append(call.id)
                case TurnEnded():
                    for call_id in asked:
                        self.calls[call_id].in_whole_turn = True
                case ToolRunStarted(call=call):
                    self.calls[call.id].starts.append(place)
                case ToolRunEnded(response=response):
                    self.calls[response.id].ends.append((place, event))
                case _:
                    pass

    @property
    def end(self) -> RunEnded:
        end = self.events[-1]
        assert isinstance(end, RunEnded), f"{self.run_id} has not ended"
        return end


def damage(events: Sequence[RunEvent], ledgers: Ledgers, around: Circumstances) -> Counter[str]:
    """How often the run breaks one of the three promises; `judge` also looks at the rest."""
    run = RunLedger(events)
    found = Counter[str](lost=0, doubled=0, unanswered=0)
    found["lost"] += not events[-1].done
    for record in run.calls.values():
        began = ledgers.times(f"{run.run_id}:{record.call.id}", "began")
        once = WHEN_CUT[record.call.name] != "retry"
        most = 1 if once else len(record.starts) * around.may_begin(record.call.name)
        found["doubled"] += len(began) > most or len(record.ends) > 1
        found["unanswered"] += (record.in_whole_turn or bool(record.starts)) and not record.ends
        if record.ends:
            end = record.ends[0][1]
            late = any(time > end.time for time in began)
            found["doubled"] += late and not around.may_begin_late(record.call.name, end)
    return found


def judge(
    events: Sequence[RunEvent], ledgers: Ledgers, around: Circumstances, *, background: bool
) -> Counter[str]:
    """Raises `AssertionError` for every broken promise. Returns the counts.

    A run that is not in the `background` may end with its gateway.
    """
    run = RunLedger(events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sum(event.done for event in events) == 1
    figures = Counter[str](runs=1, events=len(events), resumptions=len(run.resumed))
    for record in run.calls.values():
        figures += _judge_call(run, record, ledgers, around)
    figures["rounds asked again"] += _judge_rounds(run)
    figures["approvals"] += _judge_approvals(run, ledgers, around.decisions)
    figures[f"ended: {_judge_end(run, background, around)}"] += 1
    if run.run_id in around.stored_stops:
        _judge_stored_stop(run, around.stored_stops[run.run_id])
    return figures


def _judge_call(
    run: RunLedger, record: CallRecord, ledgers: Ledgers, around: Circumstances
) -> Counter[str]:
    call, key = record.call, f"{run.run_id}:{record.call.id}"
    where = f"{run.prompt}: {call.name} {key}"
    began = ledgers.times(key, "began")
    most = len(record.starts) * around.may_begin(call.name)
    assert len(began) <= most, f"{where} began without a word in the log"
    if not record.in_whole_turn and not record.starts:
        assert not record.ends, f"{where} has an answer, and its turn never was whole"
        return Counter()
    assert len(record.ends) == 1, f"{where} has {len(record.ends)} answers"
    place, end = record.ends[0]
    assert all(start < place for start in record.starts), f"{where} began again after its end"
    late = sum(time > end.time for time in began)
    assert not late or around.may_begin_late(call.name, end), f"{where} ran again after its end"
    figures = Counter[str](calls=1, **{"times that tools began": len(began)})
    figures["begun by a process that had lost the run"] += late
    if call.name in around.remote:
        figures["calls of workers"] += 1
        figures["run again by another worker"] += max(0, len(began) - len(record.starts))
    if around.lost(call.name, end):
        figures["lost with a worker: the model was told"] += 1
        return figures
    if end.outcome == "ok":
        assert ledgers.times(key, "ended"), f"{where} never came to an end"
    cuts = _cuts(run, record)
    if not cuts:
        assert len(record.starts) <= 1, f"{where} began twice"
        known = ("ok", "denied", "not_run", *(["stopped"] if run.end.reason == "stopped" else []))
        assert end.outcome in known, f"{where}: {end.outcome}, {end.response.error}"
        return figures
    if run.end.reason == "stopped" and run.run_id in around.stops:
        again = WHEN_CUT[call.name] == "retry"
        assert again or len(record.starts) == 1, f"{where} was run again"
        if len(record.starts) == cuts:  # it did not run again: its effect is unknown
            unknown = call.name not in IDEMPOTENT
            told = (end.outcome, end.effect_unknown)
            assert told == ("interrupted", unknown), f"{where}: {told}"
        figures["interrupted: then its run was stopped"] += 1
        return figures
    figures[f"interrupted: {_judge_cut(record, cuts, end, where)}"] += 1
    return figures


def _cuts(run: RunLedger, record: CallRecord) -> int:
    """How often a process ended while the call ran."""
    until = [*record.starts[1:], record.ends[0][0]]
    spans = zip(record.starts, until, strict=False)
    return sum(any(start < n < end for n in run.resumed) for start, end in spans)


def _judge_cut(record: CallRecord, cuts: int, end: ToolRunEnded, where: str) -> str:
    """Whether an interrupted call was treated as its tool says; returns how that was."""
    name = record.call.name
    if not record.in_whole_turn:
        assert name in IDEMPOTENT, f"{where} began before its turn was whole"
        assert (end.outcome, end.effect_unknown) == ("interrupted", False), where
        return "its turn was cut too"
    policy = WHEN_CUT[name]
    if policy == "retry" and end.outcome == "interrupted":
        # Another call of its turn has ended the run, or its client was gone.
        assert len(record.starts) == cuts, where
        return "not run again, since the run ended"
    if policy == "retry":
        assert end.outcome == "ok", f"{where}: {end.outcome}"
        assert len(record.starts) == cuts + 1, f"{where} was not run again"
        return "run again"
    assert len(record.starts) == 1, f"{where} was run again"
    assert (end.outcome, end.effect_unknown) == ("interrupted", True), f"{where}: {end.outcome}"
    return "the model was told" if policy == "tell_model" else "the run failed"


def _judge_rounds(run: RunLedger) -> int:
    """A turn that was cut is superseded by name, and no other is. Returns how many were."""
    number, whole, cut, restarted = 0, True, False, 0
    for event in run.events:
        match event:
            case RoundStarted():
                assert not cut, f"{run.prompt}: a cut turn was not superseded"
                assert event.round == number + 1, f"{run.prompt}: round {number} begins twice"
                number, whole = event.round, False
            case RoundRestarted():
                assert cut, f"{run.prompt}: a round began again that was not cut"
                assert event.round == number
                cut, restarted = False, restarted + 1
            case RunResumed():
                cut = number > 0 and not whole
            case TurnEnded():
                whole = True
            case RunEnded():
                assert not cut or event.reason in ("error", "stopped")
            case _:
                pass
    return restarted


def _judge_approvals(run: RunLedger, ledgers: Ledgers, decisions: dict[str, bool]) -> int:
    asked = [event.call.id for event in run.events if isinstance(event, ApprovalRequested)]
    said = [event for event in run.events if isinstance(event, ApprovalResolved)]
    assert len(set(asked)) == len(asked), f"{run.prompt}: an approval was asked for twice"
    resolved = {event.call_id: event.approved for event in said}
    assert len(resolved) == len(said), f"{run.prompt}: a call was decided about twice"
    for call_id, approved in resolved.items():
        key = f"{run.run_id}:{call_id}"
        assert approved == decisions.get(key), f"{run.prompt}: nobody said that about {key}"
        assert approved or not ledgers.times(key, "began"), f"{key} ran though it was denied"
    began = {i for i, call in run.calls.items() if call.call.name == "erase" and call.starts}
    assert all(resolved.get(call_id) for call_id in began), "a call ran without its yes"
    return len(said)


def _judge_stored_stop(run: RunLedger, known: int) -> None:
    """A stop that waited in the log is obeyed before any other step."""
    assert run.end.reason == "stopped", f"{run.prompt}: {run.end.reason} after a stop"
    after = run.events[known:]
    begun = [event for event in after if isinstance(event, ToolRunStarted | RoundStarted)]
    assert not begun, f"{run.prompt} went on after a stop: {begun[0]}"


def _judge_end(run: RunLedger, background: bool, around: Circumstances) -> str:
    """Whether the run ended as it should; returns how that was."""
    stops = around.stops
    if run.end.reason == "error":
        failed = [
            record
            for record in run.calls.values()
            if record.call.name == "launch" and record.starts and _cuts(run, record)
        ]
        how, said = "a tool was interrupted that must not be", "launch was interrupted"
        if not background:  # nothing more is done, whatever was interrupted
            how, said = "its client was gone", CLIENT_LOST
            if around.faults and "could not be written" in str(run.end.error):
                how, said = "its log failed", "the run log could not be written"
        elif not failed:
            assert _cut_in_a_row(run) > MAX_RESUMPTIONS, f"{run.prompt}: {run.end.error}"
            how, said = "it was given up", "without progress"
        assert said in str(run.end.error), f"{run.prompt}: {run.end.error}"
        return how
    if run.end.reason == "stopped" and run.run_id in stops:
        return "it was stopped"
    if run.end.reason == "stopped":
        assert not background, f"{run.prompt} was stopped"
        return "the gateway ended in order"
    assert run.end.reason == "answer", f"{run.prompt}: {run.end.reason}"
    words: list[str] = []
    for record in run.calls.values():
        if record.in_whole_turn:
            words.append(SAID[record.ends[0][1].outcome])
    assert len(words) == sum(map(len, ROUNDS[run.prompt.split()[0]]))
    assert last_text(run.events) == answer_to(run.prompt, words), run.prompt
    return "the answer"


def _cut_in_a_row(run: RunLedger) -> int:
    """How often it was resumed in a row at the end without progress."""
    count = 0
    for event in reversed(run.events[: run.resumed[-1] + 1]):
        match event:
            case RunResumed():
                count += 1
            case ToolRunEnded(outcome="interrupted"):
                pass
            case TurnEnded() | ToolRunEnded():
                break
            case _:
                pass
    return count


def last_text(events: Sequence[RunEvent]) -> str:
    """The text of the last round for a reader that obeys `RoundRestarted`."""
    text = ""
    for event in events:
        if isinstance(event, RoundStarted | RoundRestarted):
            text = ""
        elif isinstance(event, TextDelta):
            text += event.text
    return text
