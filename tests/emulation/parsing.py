"""Helpers of the parser tests: a few tools, and functions that parse a text."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from windlass.content import FunctionDeclaration
from windlass.emulation.parser import Parser
from windlass.events import (
    ModelEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)


def declared(name: str, **types: Any) -> FunctionDeclaration:
    """Returns a declaration; each parameter is a type or a schema."""
    properties = {
        key: kind if isinstance(kind, dict) else {"type": kind} for key, kind in types.items()
    }
    return FunctionDeclaration(name, "", {"type": "object", "properties": properties})


WEATHER = declared("get_weather", city="string", days="integer")
SEARCH = declared("search", query="string")
PING = declared("ping")
TOOLS = [WEATHER, SEARCH, PING]


class Read(NamedTuple):
    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    """Returns names with arguments; unreadable arguments stay text."""


def events_of(
    pieces: Iterable[str],
    tools: list[FunctionDeclaration] | None = TOOLS,
    format: str = "auto",
    *,
    truncated: bool = False,
) -> list[ModelEvent]:
    parser = Parser(tools, format)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return [*events, *parser.finish(truncated=truncated)]


def read(
    text: str | Iterable[str],
    tools: list[FunctionDeclaration] | None = TOOLS,
    format: str = "auto",
    *,
    truncated: bool = False,
) -> Read:
    pieces = [text] if isinstance(text, str) else text
    return seen(events_of(pieces, tools, format, truncated=truncated))


def seen(events: Iterable[ModelEvent]) -> Read:
    """Joins the events, and checks the rules of every stream."""
    text, thoughts, calls = "", "", list[tuple[str, Any]]()
    open_call: ToolCallStarted | None = None
    json = ""
    for event in events:
        match event:
            case TextDelta():
                assert event.text
                assert open_call is None
                text += event.text
            case ThoughtDelta():
                assert event.text
                assert open_call is None
                thoughts += event.text
            case ToolCallStarted():
                assert open_call is None
                assert event.index == len(calls)
                open_call, json = event, ""
            case ToolCallDelta():
                assert open_call
                assert event.index == open_call.index
                json += event.json
            case ToolCallEnded():
                assert open_call
                assert (event.index, event.call.name) == (open_call.index, open_call.name)
                assert (event.call.id, event.call.json) == (open_call.id, json)
                calls.append((event.call.name, event.call.arguments))
                open_call = None
            case _:
                raise AssertionError(event)
    assert open_call is None
    return Read(text, thoughts, calls)
