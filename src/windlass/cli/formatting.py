"""Texts about runs and tool calls: states, outcomes, times, tokens, arguments and results. Pure."""

from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from windlass.cli.output import Tone, cut, one_line
from windlass.content import Usage
from windlass.events import (
    Outcome,
    RoundStarted,
    RunEvent,
    Status,
    ToolRunEnded,
    ToolRunStarted,
)
from windlass.jsontext import compact_json
from windlass.reply import Reply
from windlass.runs.export import ExportedCall
from windlass.runs.records import RunRecord

OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    "ok": ("ok", "quiet"),
    "error": ("failed", "bad"),
    "invalid_arguments": ("invalid arguments", "bad"),
    "unknown_tool": ("no such tool", "bad"),
    "timeout": ("timed out", "bad"),
    "denied": ("denied", "warning"),
    "stopped": ("stopped", "warning"),
    "interrupted": ("interrupted", "warning"),
    "not_run": ("not run", "quiet"),
}
"""The text and the tone for each outcome of a call."""

MAX_SHOWN = 160
"""Characters of arguments and results that are displayed."""


def state_of(record: RunRecord, *, interrupted: bool) -> str:
    """`running`, `interrupted`, or the stop reason of an ended run."""
    if record.reason is not None:
        return record.reason
    return "interrupted" if interrupted else "running"


def state_tone(state: str) -> Tone:
    match state:
        case "answer":
            return "good"
        case "running":
            return "strong"
        case "error":
            return "bad"
        case _:
            return "warning"


def outcome_notes(
    outcome: Outcome,
    call: ToolRunEnded | ExportedCall,
    traceback: str = "the log of its process has the traceback",
) -> list[str]:
    """How a call ended, in short notes. `traceback` says where the traceback of a crash is."""
    return [
        OUTCOMES[outcome][0],
        *(["from the cache"] if call.cached else []),
        *([f"{call.attempts} attempts"] if call.attempts > 1 else []),
        *(["may have had an effect"] if call.effect_unknown else []),
        *([traceback] if call.crashed else []),
    ]


def clock_time(seconds: float, zone: tzinfo | None = None) -> str:
    """The local date and time of Unix seconds."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """A duration, with fewer digits the longer it is."""
    seconds = max(seconds, 0.0)
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def tokens(usage: Usage) -> str:
    cost = "" if usage.cost is None else f", cost {usage.cost.normalize():f}"
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"


def arguments_text(arguments: dict[str, Any] | str) -> str:
    """The arguments of a call on one line: JSON, or the model's text if it is not JSON."""
    return arguments if isinstance(arguments, str) else compact_json(arguments)


def response_text(response: dict[str, Any] | None) -> str:
    """The result of a call: errors and strings unchanged, other values as JSON."""
    match response:
        case None:
            return ""
        case {"output": str(text)} | {"error": str(text)} if len(response) == 1:
            return text
        case {"output": value} if len(response) == 1:
            return compact_json(value)
        case _:
            return compact_json(response)


def shortened(text: str, room: int | None = MAX_SHOWN) -> str:
    """The text on one line, safe for a terminal, and cut to `room` characters."""
    line = one_line(text)
    return line if room is None else cut(line, room)


_BEGIN, _END = "Executing ", "..."


class ExecutingStatus:
    """Reports each tool of a round once, and before its result.

    A tool can start, and even end, while the model is still writing; the status event follows.
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()
        """The tools of this round."""

    def text_for(self, event: RunEvent) -> str:
        """The line to print at this event; empty if there is none. Other statuses pass through."""
        match event:
            case RoundStarted():
                self._reported.clear()
                return ""
            case ToolRunStarted(call=call):
                return self._new({call.name}, f"{_BEGIN}{call.name}{_END}")
            case Status(message=message) if message.startswith(_BEGIN):
                names = message.removeprefix(_BEGIN).removesuffix(_END).split(", ")
                return self._new(set(names), message)
            case Status(message=message):
                return message
            case _:
                return ""

    def _new(self, names: set[str], text: str) -> str:
        if names <= self._reported:
            return ""
        self._reported |= names
        return text


def reply_to_dict(reply: Reply) -> dict[str, Any]:
    """The reply as JSON values. Arguments that are not JSON stay text."""
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


def _all_fields(value: msgspec.Struct) -> dict[str, Any]:
    """Includes fields with default values: scripts read `.usage.input_tokens`."""
    return msgspec.structs.asdict(value)
