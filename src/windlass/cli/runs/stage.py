"""Where a told run is written: stdout for its answer, stderr for the rest."""

import sys
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from windlass.cli.output import Output
from windlass.cli.run_output import reply_to_dict
from windlass.cli.runs.telling import Piece, Teller
from windlass.cli.runs.tones import may_colour, painted
from windlass.cli.visible import visible
from windlass.events import RunEnded, RunEvent, event_to_json_bytes
from windlass.loop.history import History

__all__ = ["Form", "Stage", "fit", "result_of", "stage_for"]

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
