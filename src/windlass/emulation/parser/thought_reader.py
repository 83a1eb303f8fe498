"""Thoughts, up to their end. A call in them is a mere thought, unless their end never comes."""

import re
from io import StringIO

from windlass.emulation.parser.call_reader import CallReader
from windlass.emulation.parser.context import Context, Plain
from windlass.emulation.parser.format import Head, Thoughts
from windlass.emulation.parser.markers import Entry
from windlass.emulation.parser.pattern import MORE, More
from windlass.emulation.parser.source import LONGEST_CALL, Step
from windlass.events import ThoughtDelta

__all__ = ["ThoughtReader"]


class ThoughtReader:
    def __init__(self, context: Context, calls: CallReader) -> None:
        self._context, self._calls = context, calls

    def read(self, thoughts: Thoughts) -> Step[None]:
        """Up to their end, or up to a call if they have none."""
        context, source, output = self._context, self._context.source, self._context.output
        index = context.markers.within(thoughts)
        plain = Plain(ThoughtDelta, index.may_begin)
        endless = False
        output.block()
        if thoughts.label:
            yield from source.match(thoughts.label)
        while True:
            found, safe = index.find(source.text, source.place, source.ended)
            self._pass(safe)
            if not found:
                if source.ended:
                    return
                yield from context.wait(plain)
                continue
            closing = thoughts.closing.at(source.text, safe, source.ended)
            if closing and closing is not MORE:
                source.place = closing.end()
                break
            hit = closing or index.hit(
                source.text, safe, source.ended, found.group(), self._may_call
            )
            if hit is MORE:
                yield
            elif not hit:
                self._pass(safe + 1)
            elif endless:
                if (yield from self._calls.read(hit, output.thought)):
                    return
            elif (yield from self._hold_back(thoughts)):
                break
            else:
                endless = True
        output.block()

    def _pass(self, end: int) -> None:
        source = self._context.source
        self._context.output.thought(source.text[source.place : end])
        source.place = end

    def _may_call(self, entry: Entry, found: re.Match[str] | More) -> bool:
        return isinstance(entry, Head) and self._context.may_call(entry, found)

    def _hold_back(self, thoughts: Thoughts) -> Step[bool]:
        """Waits for what tells whether a call is meant: the thoughts' end, or the end of all.

        True: they have ended, and it was a thought. False: they have no end; all is there again.
        """
        source, output, held, hopeless = (
            self._context.source,
            self._context.output,
            StringIO(),
            False,
        )
        while True:
            found, safe = thoughts.closing.find(source.text, source.place, source.ended)
            held.write(source.text[source.place : safe])
            source.place = found.end() if found else safe
            if found or hopeless or held.tell() > LONGEST_CALL:
                output.thought(held.getvalue())
                held, hopeless = StringIO(), True
            if found:
                return True
            if source.ended:
                source.text, source.place = held.getvalue(), 0
                return False
            yield
