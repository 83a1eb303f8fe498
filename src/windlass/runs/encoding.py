"""Events as they are kept: a JSON array. Pure."""

from collections.abc import Sequence

from msgspec.structs import replace

from windlass.events import RunEvent, ToolRunProgress
from windlass.jsontext import encode_json

__all__ = ["encoded"]


def encoded(events: Sequence[RunEvent]) -> bytes:
    """The events as JSON. Raises whatever a tool's result fails with; a report of progress never
    does, since it is no reason to end a run."""
    try:
        return encode_json(events)
    except Exception:  # noqa: BLE001 - an object may fail as it likes when it is looked at
        return encode_json([_plain(event) for event in events])


def _plain(event: RunEvent) -> RunEvent:
    if not isinstance(event, ToolRunProgress):
        return event
    try:
        encode_json(event)
    except Exception:  # noqa: BLE001 - as above
        return replace(event, data=f"<{type(event.data).__name__}>")
    return event
