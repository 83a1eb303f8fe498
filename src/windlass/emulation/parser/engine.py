"""The one engine: text in, piece by piece; text, thoughts and calls out.

It knows no format. Openings, bodies and ends come from a format's table; what is held back is the
beginning of a marker, or a marker whose name is not known yet.
"""

import re
from collections.abc import Callable, Sequence
from io import StringIO

from windlass.content import FunctionDeclaration
from windlass.emulation.parser.call import NotACall, Reading
from windlass.emulation.parser.declared import Declared
from windlass.emulation.parser.format import Head, Noise, Thoughts
from windlass.emulation.parser.formats import format_named
from windlass.emulation.parser.markers import FENCES, NEWLINE, Entry, Index, markers_of
from windlass.emulation.parser.output import Output
from windlass.emulation.parser.pattern import MORE, More, Pattern, ahead, chars
from windlass.emulation.parser.source import LONGEST_CALL, Source, Step
from windlass.events import ModelEvent, TextDelta, ThoughtDelta

__all__ = ["Parser"]

_INDENT = re.compile(r"[ \t]{0,40}")
_FENCE_ENDS = {
    fence: Pattern(chars(r"[ \t]", 0, 40), fence, chars(f"[{fence[0]} \t]", 0, 40), ahead("\n"))
    for fence in FENCES
}
_FENCE_LINE = re.compile("[`\n]").search
_CODE_LINE = re.compile("\n").search

_SPACE = re.compile(r"\s*")

Hit = tuple[Entry, re.Match[str]]
Delta = TextDelta | ThoughtDelta


class Parser:
    """Turns a model's text into events. `tools`: who may be called; None or none: nobody knows.

    Raises `ConfigError` for a format that does not exist.
    """

    def __init__(
        self, tools: Sequence[FunctionDeclaration] | None = None, format: str = "auto"
    ) -> None:
        self._named = format != "auto"
        self._markers = markers_of(format_named(format))
        self._declared = Declared(tools)
        self._source, self._output = Source(), Output()
        self._fence = ""
        self._fence_line = False
        self._quick: Callable[[str], object] | None = None
        """Where plain text goes on: finds what would end it."""
        self._quick_event: type[Delta] = TextDelta
        self._steps = self._read()
        self._resume()

    def feed(self, text: str) -> list[ModelEvent]:
        if not text:
            return []
        if self._quick and not self._quick(text):
            self._output.line.add(text)
            return [self._quick_event(text)]
        self._quick = None
        self._source.add(text)
        self._resume()
        return self._output.take()

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        """The rest. `truncated`: the model was cut off, so an unfinished call must not run."""
        self._quick = None
        self._source.end(truncated=truncated)
        self._resume()
        self._output.finish()
        return self._output.take()

    def _resume(self) -> None:
        next(self._steps, None)

    def _wait(self, ends: Callable[[str], object], event: type[Delta] = TextDelta) -> Step[None]:
        """Until more text comes. If nothing is held back, plain text need not come this way."""
        if self._source.place == len(self._source.text) and self._output.gap is None:
            self._quick, self._quick_event = ends, event
        yield

    def _read(self) -> Step[None]:
        while hit := (yield from self._next_hit()):
            entry, found = hit
            match entry:
                case Head():
                    yield from self._read_call(entry, found, self._output.text)
                case Thoughts():
                    self._source.place = found.end()
                    self._output.block()
                    yield from self._read_thoughts(entry)
                case Noise():
                    self._source.place = found.end()
                    self._output.block()

    # Text.

    def _next_hit(self) -> Step[Hit | None]:
        """Passes on text up to the next marker; None at the end."""
        source, inline = self._source, self._markers.inline
        begins = self._output.gap is not None
        while True:
            if begins and (hit := (yield from self._hit_at_line_start())):
                return hit
            if self._fence:
                yield from self._read_code()
            begins = False
            found, safe = inline.find(source.text, source.place, source.ended)
            self._pass_text(safe)
            if found:
                begins = found.group() == NEWLINE
                hit = None if begins else self._inline_hit(found.group())
                if hit is MORE:
                    yield
                elif hit:
                    return hit
                else:
                    self._pass_text(source.place + 1)
            elif source.ended:
                return None
            else:
                yield from self._wait(inline.may_begin)

    def _pass_text(self, end: int) -> None:
        source = self._source
        self._output.text(source.text[source.place : end])
        source.place = end

    def _inline_hit(self, word: str) -> Hit | More | None:
        source, inline = self._source, self._markers.inline
        if self._output.line.is_quoted:
            return None
        entries = [entry for entry in inline.entries(word) if self._may_begin(entry)]
        return inline.choose(source.text, source.place, source.ended, entries)

    def _may_begin(self, entry: Entry) -> bool:
        match entry:
            case Head(trust="declared"):
                return (bool(self._declared) or self._named) and not self._output.line.is_value
            case Thoughts(plain=True):
                return self._output.gap is not None or self._output.line.is_blank
            case _:
                return True

    def _hit_at_line_start(self) -> Step[Hit | None]:
        source, line = self._source, self._markers.line
        while True:
            indent = _INDENT.match(source.text, source.place)
            start = indent.end() if indent else source.place
            word = line.at(source.text, start)
            entries = line.entries(word.group()) if word else ()
            hit = line.choose(source.text, start, source.ended, filter(self._may_begin, entries))
            if hit is not MORE:
                break
            yield
        if hit:
            self._pass_text(start)
        elif word and word.group() in FENCES:
            self._pass_text(word.end())
            self._fence, self._fence_line = word.group(), True
        return hit

    def _read_code(self) -> Step[None]:
        """Passes on a fenced block, or what is there of it."""
        source = self._source
        while self._fence:
            ends = _FENCE_LINE if self._fence_line else _CODE_LINE
            found = ends(source.text, source.place)
            if not found:
                self._pass_text(len(source.text))
                if source.ended:
                    return
                yield from self._wait(ends)
            elif found.group() != NEWLINE:
                self._fence = ""  # a backtick in the first line: code within the line, no block
            else:
                self._pass_text(found.end())
                self._fence_line = False
                if closing := (yield from source.match(_FENCE_ENDS[self._fence])):
                    self._output.text(closing.group())
                    self._fence = ""

    # Calls.

    def _read_call(
        self, head: Head, found: re.Match[str], give_back: Callable[[str], None]
    ) -> Step[bool]:
        """Reads what follows the marker; whether there was a call."""
        source, trust = self._source, head.trust
        if trust == "declared" and not self._declared:
            trust = "marked"  # whoever names the format says that these are calls
        reading = Reading(source, self._declared, self._output, trust, head.ends, give_back)
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
            if head.fence:
                self._fence, self._fence_line = found.group()[:3], NEWLINE not in found.group()
            return False
        source.forget()
        if head.ends:
            yield from self._pass_over(head.ends)
        return True

    def _pass_over(self, ends: Pattern) -> Step[None]:
        """Reads the marks that may follow a call, each once, and the space before them."""
        source, output = self._source, self._output
        passed: set[str] = set()
        while True:
            space = _SPACE.match(source.text, source.place)
            self._pass_text(space.end() if space else source.place)
            found = ends.at(source.text, source.place, source.ended)
            if found is MORE:
                yield
            elif found and found.group() not in passed:
                passed.add(found.group())
                source.place = found.end()
                output.block()
            else:
                break
        if source.ended and ends.prefix.match(source.text, source.place):
            source.place = len(source.text)

    # Thoughts.

    def _read_thoughts(self, thoughts: Thoughts) -> Step[None]:
        """Up to their end, or up to a call if they have none."""
        source, output, index = self._source, self._output, self._markers.within(thoughts)
        if thoughts.label:
            yield from source.match(thoughts.label)
        while True:
            found, place = index.find(source.text, source.place, source.ended)
            output.thought(source.text[source.place : place])
            source.place = place
            if not found:
                if source.ended:
                    return
                yield from self._wait_in_thoughts(index)
                continue
            hit = self._end_of_thoughts(thoughts, index, found.group())
            if hit is MORE:
                yield
            elif isinstance(hit, re.Match):
                source.place = hit.end()
                output.block()
                return
            elif hit is None:
                output.thought(source.text[place])
                source.place = place + 1
            elif (yield from self._ends_in_call(thoughts, index)):
                return

    def _wait_in_thoughts(self, index: Index) -> Step[None]:
        if self._source.place == len(self._source.text):
            self._quick, self._quick_event = index.may_begin, ThoughtDelta
        yield

    def _end_of_thoughts(
        self, thoughts: Thoughts, index: Index, word: str
    ) -> re.Match[str] | Hit | More | None:
        source = self._source
        closing = thoughts.closing.at(source.text, source.place, source.ended)
        if closing is not None:
            return closing
        return index.choose(source.text, source.place, source.ended, index.entries(word))

    def _ends_in_call(self, thoughts: Thoughts, index: Index) -> Step[bool]:
        """Whether the thoughts are over: at their end, or in a call after which no end comes.

        A marker in thoughts may be a mere thought. Only the end of all text tells.
        """
        source, output, held, hopeless = self._source, self._output, StringIO(), False
        while True:
            found, safe = thoughts.closing.find(source.text, source.place, source.ended)
            held.write(source.text[source.place : safe])
            source.place = found.end() if found else safe
            if found or hopeless or held.tell() > LONGEST_CALL:
                output.thought(held.getvalue())
                held, hopeless = StringIO(), True
            if found:
                output.block()
                return True
            if source.ended:
                break
            yield
        source.text, source.place = held.getvalue(), 0
        hit = index.at(source.text, 0)
        chosen = index.choose(source.text, 0, True, index.entries(hit.group())) if hit else None
        if chosen is None or chosen is MORE or not isinstance(chosen[0], Head):
            return False
        return (yield from self._read_call(chosen[0], chosen[1], output.thought))
