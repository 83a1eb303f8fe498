"""Small models write the same call again and again: said once, it is meant once. Pure."""

import msgspec

from windlass.content import FunctionDeclaration
from windlass.emulation.parser import Parser
from windlass.emulation.reading import TextParser
from windlass.events import ModelEvent, ToolCallDelta, ToolCallEnded, ToolCallStarted

__all__ = ["WithoutRepeats", "parser_without_repeats"]


def parser_without_repeats(tools: tuple[FunctionDeclaration, ...]) -> TextParser:
    return WithoutRepeats(Parser(tools))


class WithoutRepeats:
    """Passes what a parser finds, except calls that it has found before in the same turn.

    Whether a call is a repetition shows at its end: until then its events are kept back.
    """

    def __init__(self, parser: TextParser) -> None:
        self._parser = parser
        self._seen: set[tuple[str, bytes]] = set()
        self._begun: dict[int, list[ModelEvent]] = {}

    def feed(self, text: str) -> list[ModelEvent]:
        return self._passed(self._parser.feed(text))

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        # A call without an end is passed as it is: the turn is known by it to be broken off.
        passed = self._passed(self._parser.finish(truncated=truncated))
        begun = [event for events in self._begun.values() for event in events]
        self._begun.clear()
        return [*passed, *begun]

    def _passed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        passed: list[ModelEvent] = []
        for event in events:
            match event:
                case ToolCallStarted():
                    self._begun[event.index] = [event]
                case ToolCallDelta():
                    self._begun[event.index].append(event)
                case ToolCallEnded():
                    begun = self._begun.pop(event.index)
                    arguments = event.call.arguments
                    key = (event.call.name, msgspec.json.encode(arguments, order="deterministic"))
                    if key not in self._seen:
                        self._seen.add(key)
                        passed += [*begun, event]
                case _:
                    passed.append(event)
        return passed
