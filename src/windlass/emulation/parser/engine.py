"""The one engine: text in, piece by piece; text, thoughts and calls out.

It knows no format. Openings, bodies and ends come from a format's table; what is held back is the
beginning of a marker, or a marker whose name is not known yet.
"""

from collections.abc import Sequence

from windlass.content import FunctionDeclaration
from windlass.emulation.parser.call_reader import CallReader
from windlass.emulation.parser.context import Context
from windlass.emulation.parser.declared import Declared
from windlass.emulation.parser.format import Head, Noise, Thoughts
from windlass.emulation.parser.formats import format_named
from windlass.emulation.parser.markers import markers_of
from windlass.emulation.parser.source import Step
from windlass.emulation.parser.text_reader import TextReader
from windlass.emulation.parser.thought_reader import ThoughtReader
from windlass.events import ModelEvent

__all__ = ["Parser"]


class Parser:
    """Turns a model's text into events.

    `tools` are the functions that may be called. Without any, nobody knows the names: formats that
    are clearly calls may call all of them, and no other text is a call unless its format is named.
    Raises `ConfigError` for a format that does not exist.
    """

    def __init__(
        self, tools: Sequence[FunctionDeclaration] | None = None, format: str = "auto"
    ) -> None:
        markers = markers_of(format_named(format))
        self._context = Context(markers, Declared(tools), named=format != "auto")
        self._text = TextReader(self._context)
        self._calls = CallReader(self._context)
        self._thoughts = ThoughtReader(self._context, self._calls)
        self._steps = self._read()
        next(self._steps)

    def feed(self, text: str) -> list[ModelEvent]:
        context, plain = self._context, self._context.plain
        if not text:
            return []
        if plain and not plain.end.search(text):
            context.output.line.add(text)
            return [plain.event(text)]
        context.plain = None
        context.source.add(text)
        next(self._steps, None)
        return context.output.take()

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        """The rest. `truncated`: the model was cut off, so an unfinished call must not run."""
        context = self._context
        context.plain = None
        context.source.end(truncated=truncated)
        next(self._steps, None)
        context.output.finish(truncated=truncated)
        return context.output.take()

    def _read(self) -> Step[None]:
        source, output = self._context.source, self._context.output
        while hit := (yield from self._text.next_hit()):
            entry, found = hit
            match entry:
                case Head():
                    made = yield from self._calls.read(hit, output.text)
                    if entry.fence and not made:
                        self._text.open_fence(found.group())
                case Thoughts():
                    source.place = found.end()
                    yield from self._thoughts.read(entry)
                case Noise():
                    source.place = found.end()
                    output.block()
