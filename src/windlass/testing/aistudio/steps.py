"""Script steps that only the page supports, in addition to the usual turns and faults.

Some cases need no special step: `hang()` is an endless spinner, `slow(turn)` a late first token,
and `cut` and `disconnect` interrupt the answer. Write a malformed call as a normal call:
`call("get_wea")`, `call("default_api:f")`, `raw_call("f", "{<ctrl46>x...")`.
"""

from typing import Any, Literal, TypeAlias

from windlass.content import FunctionCall, Opaque
from windlass.events import ModelEvent, PartReceived, TextDelta, ThoughtDelta, ToolCallEnded
from windlass.jsontext import compact_json
from windlass.testing.gate import Gate
from windlass.testing.script import Refuse, Slow, Turn, events_of, refuse, slow, turn_of

PageEvent: TypeAlias = dict[str, Any]
"""An event in the page; `type` is its kind."""

_IDLE: PageEvent = {"type": "idle"}


def late_calls(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn; its calls appear only after the run button is idle and the step has waited."""
    events = page_events(turn)
    before = [event for event in events if event["type"] != "call"]
    calls = [event for event in events if event["type"] == "call"]
    played = _playing([*before, _IDLE, *calls], turn)
    return slow(played, gate, seconds=seconds, after=len(before) + 1)


def filled_late(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn; its calls are empty when the run button becomes idle, and filled after a wait."""
    events = page_events(turn)
    empty = [event | {"arguments": ""} if event["type"] == "call" else event for event in events]
    written = [event["arguments"] for event in events if event["type"] == "call"]
    filled = [{"type": "arguments", "index": i, "text": text} for i, text in enumerate(written)]
    played = _playing([*empty, _IDLE, *filled], turn)
    return slow(played, gate, seconds=seconds, after=len(empty) + 1)


def rendered_twice(turn: Turn) -> Turn:
    """The turn; the page replaces the element of each call in the next animation frame."""
    events: list[PageEvent] = []
    calls = 0
    for event in page_events(turn):
        events.append(event)
        if event["type"] == "call":
            events.append({"type": "call_again", "index": calls})
            calls += 1
    return _playing(events, turn)


def toast(
    message: str, level: Literal["warning", "error"] = "warning", *, turn: Turn | str = ""
) -> Turn:
    """The turn, after a toast."""
    said = turn_of(turn)
    shown = {"type": "toast", "message": message, "level": level}
    return _playing([shown, *page_events(said)], said)


def quota_callout(message: str = "You have reached your quota. Try again later.") -> Refuse:
    """The callout for an exhausted quota."""
    return refuse(429, message)


def model_error(message: str = "An internal error has occurred.") -> Refuse:
    """An error instead of the model's turn."""
    return refuse(500, message)


def written_call(name: str, /, **arguments: Any) -> Turn:
    """A call that the model writes as text although the page supports function calling."""
    return Turn(text=f"Request function call: {name}\nParameters:\n{compact_json(arguments)}")


def page_events(turn: Turn) -> list[PageEvent]:
    """The page events of the turn. A call is one event."""
    return [shown for event in events_of(turn) if (shown := _shown(event)) is not None]


def _shown(event: ModelEvent) -> PageEvent | None:
    match event:
        case TextDelta(text=text):
            return {"type": "text", "text": text}
        case ThoughtDelta(text=text):
            return {"type": "thought", "text": text}
        case ToolCallEnded(call=FunctionCall(name=name, json=json)):
            return {"type": "call", "name": name, "arguments": json}
        case PartReceived(part=Opaque(provider="aistudio", data=data)):
            return data
        case PartReceived(part=part):
            raise ValueError(f"the page cannot show {part!r}")
        case _:
            return None


def _playing(events: list[PageEvent], turn: Turn) -> Turn:
    parts = tuple(Opaque("aistudio", event) for event in events)
    return Turn(parts=parts, usage=turn.usage, pieces=turn.pieces)
