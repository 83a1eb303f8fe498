"""What `windlass run` writes: the answer on stdout in one of three forms, the story on stderr."""

from collections.abc import Callable
from typing import Any, Protocol, TextIO

import msgspec

from windlass.cli.executing import Executing
from windlass.cli.output import Output
from windlass.cli.visible import cut, one_line, visible
from windlass.client import AsyncRun
from windlass.content import FunctionCall, FunctionResponse, Usage
from windlass.errors import RoundLimitExceeded
from windlass.events import (
    ApprovalResolved,
    Outcome,
    RoundStarted,
    RunEnded,
    RunEvent,
    Status,
    StopReason,
    TextDelta,
    ToolRunEnded,
    ToolRunProgress,
    ToolRunStarted,
    event_to_json_bytes,
)
from windlass.reply import Reply

__all__ = [
    "Answer",
    "EventLines",
    "JsonObject",
    "Narrator",
    "StreamedText",
    "reason_of",
    "reply_to_dict",
]

_LONGEST_SHOWN = 160


class Answer(Protocol):
    """One form of the answer on stdout."""

    def take(self, event: RunEvent) -> None:
        """Writes what there is to write of the event."""
        ...

    def end(self, run: AsyncRun) -> None:
        """Writes what is left when the run has ended, however it ended."""
        ...


class StreamedText:
    """The model's text as it comes, and nothing else. What several rounds say is on lines apart."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: Callable[[str], str] = visible if output.is_terminal else str
        self._line_is_open = False

    def take(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text) if text:
                self._output.text(self._shown(text))
                self._line_is_open = not text.endswith("\n")
            case Status() | RoundStarted() | ToolRunStarted() | ToolRunEnded() | RunEnded():
                self._close_line()
            case _:
                pass

    def end(self, run: AsyncRun) -> None:
        self._close_line()

    def _close_line(self) -> None:
        if self._line_is_open:
            self._output.text("\n")
            self._line_is_open = False


class EventLines:
    """Every event of the run, as one line of JSON."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def take(self, event: RunEvent) -> None:
        self._output.bytes(event_to_json_bytes(event) + b"\n")

    def end(self, run: AsyncRun) -> None:
        """The last event has said it."""


class JsonObject:
    """One object when all is over. A run that failed has its error in place of an answer."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def take(self, event: RunEvent) -> None:
        """Nothing is written before the end."""

    def end(self, run: AsyncRun) -> None:
        if run.error is None:
            self._output.json(reply_to_dict(run.reply))
        else:
            self._output.json({"stop_reason": reason_of(run), "error": str(run.error)})


def reason_of(run: AsyncRun) -> StopReason:
    """Why an ended run ended. A limit is one, also where it is configured to be an error."""
    if isinstance(run.error, RoundLimitExceeded):
        return "max_rounds"
    return run.stop_reason or "stopped"


def reply_to_dict(reply: Reply) -> dict[str, Any]:
    """The reply in plain JSON values. Arguments that cannot be read are the model's own text."""
    return {
        "text": reply.text,
        "calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls
        ],
        "results": [
            {"id": result.id, "name": result.name, **result.response} for result in reply.results
        ],
        "usage": _all_fields(reply.usage),
        "rounds": [
            {"number": each.number, "finish": each.finish, "usage": _all_fields(each.usage)}
            for each in reply.rounds
        ],
        "stop_reason": reply.stop_reason,
        "messages": [message.to_dict() for message in reply.messages],
        "model": reply.model,
    }


class Narrator:
    """Tells a person what the run does: a line for each tool that has run, and at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._calls: dict[str, FunctionCall] = {}
        self._executing = Executing()

    def tell(self, event: RunEvent) -> None:
        if words := self._executing.said(event):
            self.say(words)
        match event:
            case ToolRunStarted(call=call):
                self._calls[call.id] = call
            case ToolRunProgress(name=name, progress=done, message=message):
                share = "" if done is None else f" {done:.0%}"
                self.say(f"  {name}:{share} {message or ''}".rstrip())
            case ToolRunEnded(response=response, outcome=outcome, seconds=seconds):
                doubt = "; it may have had its effect" if event.effect_unknown else ""
                where = "; see the traceback above" if event.crashed else ""
                how = f"{_HOW[outcome]}{doubt}{where}, {seconds:.2f} s"
                self.say(f"  {self._called(response)} -> {_result(response)} ({how})")
            case ApprovalResolved(approved=True, call_id=call_id):
                self.say(f"  {self._name(call_id)}: approved")
            case RunEnded(reason="error", usage=Usage(total_tokens=0)):
                pass  # nothing was used, and the error follows
            case RunEnded(usage=usage, rounds=rounds):
                self.say(
                    f"{usage.input_tokens} tokens in, {usage.output_tokens} out,"
                    f" {rounds} {'round' if rounds == 1 else 'rounds'}"
                )
            case _:
                pass

    def say(self, line: str) -> None:
        self._stream.write(f"{visible(line)}\n")
        self._stream.flush()

    def _name(self, call_id: str) -> str:
        return self._calls[call_id].name if call_id in self._calls else call_id

    def _called(self, response: FunctionResponse) -> str:
        call = self._calls.get(response.id)
        return f"{response.name} {_short(call.json) if call else ''}".rstrip()


_HOW: dict[Outcome, str] = {
    "ok": "ok",
    "error": "failed",
    "invalid_arguments": "arguments that do not fit",
    "unknown_tool": "no such tool",
    "timeout": "timed out",
    "denied": "denied",
    "stopped": "stopped",
    "interrupted": "interrupted",
    "not_run": "not run",
}


def _result(response: FunctionResponse) -> str:
    return _short(response.text if response.error is None else response.error)


def _short(text: str) -> str:
    return cut(one_line(text), _LONGEST_SHOWN)


def _all_fields(value: msgspec.Struct) -> dict[str, Any]:
    """With those that are at their defaults: a script asks for `.usage.input_tokens`."""
    return msgspec.structs.asdict(value)
