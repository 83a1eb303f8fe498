"""`windlass.parse`: parses a model's text into text, thoughts and calls."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from windlass.content import FunctionCall, FunctionDeclaration
from windlass.emulation.parser import Parser
from windlass.events import ModelEvent, TextDelta, ThoughtDelta, ToolCallEnded
from windlass.tool import as_tools
from windlass.tool.declarations import declarations_in, in_json_schema


class ParsedCall(Struct, frozen=True):
    """A call. `arguments` is a dict, or the raw text with `error` set."""

    name: str
    arguments: dict[str, Any] | str
    json: str
    error: str | None = None


class Parsed(Struct, frozen=True):
    """What `parse` found in a text."""

    content: str
    thoughts: str
    calls: tuple[ParsedCall, ...]


def parse(
    text_or_chunks: str | Iterable[str], tools: Iterable[Any] | None = None, format: str = "auto"
) -> Parsed:
    """Parses a model's text, or the chunks of it, into text, thoughts and calls.

    `tools` are the tools that the model may call: functions, tools, declarations or OpenAI's
    dictionaries. Without them, formats that are clearly calls may call any name.
    Raises `ConfigError` for an unknown format, and for a value that is not a tool.
    """
    parser = Parser(_declarations(tools), format)
    chunks = [text_or_chunks] if isinstance(text_or_chunks, str) else text_or_chunks
    events: list[ModelEvent] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    events += parser.finish()
    return _parsed(events)


def _parsed(events: Iterable[ModelEvent]) -> Parsed:
    text: list[str] = []
    thoughts: list[str] = []
    calls: list[ParsedCall] = []
    for event in events:
        match event:
            case TextDelta():
                text.append(event.text)
            case ThoughtDelta():
                thoughts.append(event.text)
            case ToolCallEnded():
                calls.append(_parsed_call(event.call))
            case _:
                pass
    return Parsed("".join(text), "".join(thoughts), tuple(calls))


def _parsed_call(call: FunctionCall) -> ParsedCall:
    return ParsedCall(call.name, call.arguments, call.json, call.error)


def _declarations(tools: Iterable[Any] | None) -> list[FunctionDeclaration]:
    """Reads the tools. Names in dictionaries need not follow a provider's rules here."""
    found: list[Any] = []
    for tool in tools or ():
        if isinstance(tool, Mapping):
            found += declarations_in(cast("Mapping[str, Any]", tool))
        elif isinstance(tool, FunctionDeclaration):
            found.append(tool)
        else:
            found += [each.declaration for each in as_tools([tool])]
    known = [in_json_schema(declaration) for declaration in found]
    return [declaration for declaration in known if isinstance(declaration, FunctionDeclaration)]
