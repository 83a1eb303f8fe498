"""Steps of a script that only a page can play, beside the turns and faults of every script.

What needs no step of its own: `hang()` is a spinner that never ends, `slow(turn)` a first token
that is late, `cut` and `disconnect` an answer that breaks off. A call that the model gets wrong is
just another call: `call("get_wea")`, `call("default_api:f")`, `raw_call("f", "{<ctrl46>x...")`.
"""

from typing import Any, Literal, TypeAlias

from windlass.content import FunctionCall, Opaque
from windlass.events import ModelEvent, PartReceived, TextDelta, ThoughtDelta, ToolCallEnded
from windlass.jsontext import compact_json
from windlass.testing.gate import Gate
from windlass.testing.script import Refuse, Slow, Turn, events_of, refuse, slow, turn_of

PageEvent: TypeAlias = dict[str, Any]
"""Something that happens in the page, by its `type`."""

_IDLE: PageEvent = {"type": "idle"}


def late_calls(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn, whose calls come only after the run button is idle: then the step waits."""
    events = page_events(turn)
    before = [event for event in events if event["type"] != "call"]
    calls = [event for event in events if event["type"] == "call"]
    played = _playing([*before, _IDLE, *calls], turn)
    return slow(played, gate, seconds=seconds, after=len(before) + 1)


def filled_late(turn: Turn, gate: Gate | None = None, *, seconds: float = 0.0) -> Slow:
    """The turn, whose calls are empty when the run button goes idle, and filled after a wait."""
    events = page_events(turn)
    empty = [event | {"arguments": ""} if event["type"] == "call" else event for event in events]
    written = [event["arguments"] for event in events if event["type"] == "call"]
    filled = [{"type": "arguments", "index": i, "text": text} for i, text in enumerate(written)]
    played = _playing([*empty, _IDLE, *filled], turn)
    return slow(played, gate, seconds=seconds, after=len(empty) + 1)


def rendered_twice(turn: Turn) -> Turn:
    """The turn, with a fresh element for each call in the frame after the one that shows it."""
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
    """A toast, and then the turn."""
    said = turn_of(turn)
    shown = {"type": "toast", "message": message, "level": level}
    return _playing([shown, *page_events(said)], said)


def quota_callout(message: str = "You have reached your quota. Try again later.") -> Refuse:
    """The callout of a quota that is used up."""
    return refuse(429, message)


def model_error(message: str = "An internal error has occurred.") -> Refuse:
    """An error in the place of the model's turn."""
    return refuse(500, message)


def written_call(name: str, /, **arguments: Any) -> Turn:
    """A call that the model writes as text, although the page has function calling."""
    return Turn(text=f"Request function call: {name}\nParameters:\n{compact_json(arguments)}")


def page_events(turn: Turn) -> list[PageEvent]:
    """What happens in the page, piece by piece. A call comes whole."""
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
            raise ValueError(f"the page has no place in an answer for {part!r}")
        case _:
            return None


def _playing(events: list[PageEvent], turn: Turn) -> Turn:
    parts = tuple(Opaque("aistudio", event) for event in events)
    return Turn(parts=parts, usage=turn.usage, pieces=turn.pieces)
