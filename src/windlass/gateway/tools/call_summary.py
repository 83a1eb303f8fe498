"""One call and its outcome, short enough for a list. Pure."""

from msgspec import Struct

from windlass.content import FunctionResponse
from windlass.events import Outcome
from windlass.jsontext import encode_json
from windlass.reply import capped
from windlass.wires.fields import JsonObject

SHOWN = 2_000
"""Characters of a call's arguments, and of its response, that a summary shows."""


class CallSummary(Struct, frozen=True, kw_only=True):
    """One call and what it came to. Without an outcome it was not run here, or still runs."""

    run_id: str | None
    """None for a call that a person made."""
    call_id: str
    name: str
    time: float
    """When it began, in Unix seconds."""
    seconds: float
    outcome: Outcome | None
    arguments: JsonObject | str
    """As they were said; the beginning of their text where that is long, or no JSON object."""
    response: JsonObject | None
    by_hand: bool = False

    @property
    def failed(self) -> bool:
        return self.outcome not in (None, "ok")


def cut_response(response: FunctionResponse) -> JsonObject:
    """Head and tail of what is too long to be shown whole."""
    return capped(response, SHOWN).response


def cut_arguments(arguments: JsonObject | str) -> JsonObject | str:
    """The beginning of what is too long to be shown whole."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    return arguments if len(text) <= SHOWN else f"{text[:SHOWN]}…"
