"""One marker, and the calls that follow it."""

import re
from collections.abc import Callable

from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.context import Context
from windlass.emulation.parser.format import Head
from windlass.emulation.parser.markers import Hit
from windlass.emulation.parser.pattern import MORE, Pattern
from windlass.emulation.parser.source import Step

__all__ = ["CallReader"]

_SPACE = re.compile(r"\s*")


class CallReader:
    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, hit: Hit, give_back: Callable[[str], None]) -> Step[bool]:
        """Reads the calls; whether there were any. What is not a call is given back."""
        head, found = hit
        assert isinstance(head, Head)
        context, source = self._context, self._context.source
        reading = Reading(
            source, context.declared, context.output, context.trust(head), head.ends, give_back
        )
        source.keep()
        source.place = found.end()
        try:
            for _ in head.body.read(reading, found):
                if reading.hopeless:
                    reading.give_back()
                yield
        except NotACall:
            reading.give_up()
        if not reading.calls:
            reading.give_up()
            return False
        source.forget()
        if head.ends:
            yield from self._pass_over(head.ends)
        if not source.ended:
            context.output.settle()
        return True

    def _pass_over(self, ends: Pattern) -> Step[None]:
        """Reads the marks that may follow a call, each once, and the space before them."""
        source, output = self._context.source, self._context.output
        passed: set[str] = set()
        while True:
            space = _SPACE.match(source.text, source.place)
            self._context.pass_text(space.end() if space else source.place)
            found = ends.at(source.text, source.place, source.ended)
            if found is MORE:
                yield
            elif found and found.group() not in passed:
                passed.add(found.group())
                source.place = found.end()
                output.settle()
                output.block()
            else:
                break
        if source.ended and ends.prefix.match(source.text, source.place):
            source.place = len(source.text)
