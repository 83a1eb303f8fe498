"""Texts about runs and tool calls: states, outcomes, times, tokens, arguments and results. Pure."""

from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from windlass.cli.output import Tone, cut, one_line
from windlass.content import Usage
from windlass.events import Outcome, RoundStarted, RunEvent, Status, StopReason, ToolRunStarted
from windlass.jsontext import compact_json
from windlass.reply import Reply
from windlass.runs.records import RunRecord

ENDINGS: dict[StopReason, tuple[int, str]] = {
    "answer": (0, ""),
    "calls": (3, "the model asks for tools that its caller runs"),
    "max_rounds": (3, "the limit of rounds was reached"),
    "repetition": (3, "the model kept repeating a call that keeps failing"),
    "length": (3, "the model's output limit cut the answer"),
    "content_filter": (3, "the provider withheld the answer"),
    "malformed_call": (3, "the provider could not read its own model's call"),
    "deadline": (3, "the run's time was up"),
    "stopped": (3, "somebody stopped the run"),
    "error": (1, "the run failed"),
}
"""The exit code of each way to end, and what is said about it."""

OUTCOMES: dict[Outcome, tuple[str, Tone]] = {
    "ok": ("ok", "quiet"),
    "error": ("failed", "bad"),
    "invalid_arguments": ("arguments that do not fit", "bad"),
    "unknown_tool": ("no such tool", "bad"),
    "timeout": ("timed out", "bad"),
    "denied": ("denied", "warning"),
    "stopped": ("stopped", "warning"),
    "interrupted": ("interrupted by the end of the process", "warning"),
    "not_run": ("not run", "quiet"),
}
"""What is said of a tool's end."""

SHORT = 160
"""As much as is shown of arguments and results."""


def state_of(record: RunRecord, *, cut_off: bool) -> str:
    """How a run stands: `running`, `cut off`, or why it ended. One that has ended is not cut."""
    if record.reason is not None:
        return record.reason
    return "cut off" if cut_off else "running"


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


def exit_code(reason: StopReason) -> int:
    return ENDINGS[reason][0]


def ended_words(reason: StopReason, error: str | None) -> str:
    """Why there is no full answer; empty if there is one."""
    if reason == "error" and error:
        return f"the run failed: {error}"
    words = ENDINGS[reason][1]
    return f"no full answer: {reason}: {words}" if words and reason != "error" else words


def outcome_notes(
    outcome: Outcome, *, cached: bool, attempts: int, effect_unknown: bool, crashed: bool
) -> list[str]:
    """How a tool's run ended, in a few words."""
    return [
        OUTCOMES[outcome][0],
        *(["from the cache"] if cached else []),
        *([f"{attempts} attempts"] if attempts > 1 else []),
        *(["it may have had its effect"] if effect_unknown else []),
        *(["the log of its process has the traceback"] if crashed else []),
    ]


def clock_time(seconds: float, zone: tzinfo | None = None) -> str:
    """A time of the day at this place."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """A length of time, as exactly as it matters."""
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
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def arguments_text(arguments: dict[str, Any] | str) -> str:
    """A call's arguments on one line, in JSON where they are JSON."""
    return arguments if isinstance(arguments, str) else compact_json(arguments)


def response_text(response: dict[str, Any] | None) -> str:
    """A call's answer: an error in its own words, a text as it is, other values as JSON."""
    match response:
        case None:
            return ""
        case {"output": str(text)} | {"error": str(text)} if len(response) == 1:
            return text
        case {"output": value} if len(response) == 1:
            return compact_json(value)
        case _:
            return compact_json(response)


def shortened(text: str, room: int | None = SHORT) -> str:
    """On one line and cut; harmless on a terminal."""
    line = one_line(text)
    return line if room is None else cut(line, room)


_BEGIN, _END = "Executing ", "..."


class Executing:
    """A tool may start, and even end, while the model still speaks; the status comes after that."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        """The tools of this round that were announced."""

    def said(self, event: RunEvent) -> str:
        """What to say at this event, if anything; the text of any other status as it is."""
        match event:
            case RoundStarted():
                self._told.clear()
                return ""
            case ToolRunStarted(call=call):
                return self._announced({call.name}, f"{_BEGIN}{call.name}{_END}")
            case Status(message=message) if message.startswith(_BEGIN):
                names = message.removeprefix(_BEGIN).removesuffix(_END).split(", ")
                return self._announced(set(names), message)
            case Status(message=message):
                return message
            case _:
                return ""

    def _announced(self, names: set[str], words: str) -> str:
        if names <= self._told:
            return ""
        self._told |= names
        return words


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


def _all_fields(value: msgspec.Struct) -> dict[str, Any]:
    """With those that are at their defaults: a script asks for `.usage.input_tokens`."""
    return msgspec.structs.asdict(value)
