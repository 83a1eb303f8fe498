"""The parser engine: reads text piece by piece, and returns text, thoughts and calls as events.

The engine knows no format: markers and the readers of arguments come from a format's table. It
holds text back only while that text may be the start of a marker, or a marker with an incomplete
name. `TextReader` reads up to the next marker, `ThoughtReader` reads thoughts, and `CallReader`
reads the calls after a marker.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO

from windlass.content import FunctionDeclaration
from windlass.emulation.parser.call import CallReading, Declared, NotACall, Trust
from windlass.emulation.parser.format import (
    FENCES,
    NEWLINE,
    CallHead,
    Entry,
    Hit,
    Markers,
    Noise,
    Thoughts,
    markers_of,
)
from windlass.emulation.parser.formats import format_named
from windlass.emulation.parser.output import ParserOutput
from windlass.emulation.parser.pattern import MORE, More, Pattern, ahead, chars
from windlass.emulation.parser.source import MAX_CALL_CHARS, Source, Step
from windlass.events import ModelEvent, TextDelta, ThoughtDelta


@dataclass(frozen=True, slots=True)
class PassThrough:
    """How to pass text on while nothing is held back: its event, and the pattern that ends it."""

    event: type[TextDelta | ThoughtDelta]
    end: re.Pattern[str]


@dataclass(slots=True)
class Context:
    """What the readers of one text share."""

    markers: Markers
    declared: Declared
    named: bool
    """Whether the caller named the text's format."""
    source: Source = field(default_factory=Source)
    output: ParserOutput = field(default_factory=ParserOutput)
    pass_through: PassThrough | None = None

    def wait(self, pass_through: PassThrough) -> Step[None]:
        """Waits for more text, which may pass directly to the caller if nothing is held back."""
        at_end = self.source.place == len(self.source.text)
        if at_end and self.output.is_flowing(pass_through.event):
            self.pass_through = pass_through
        yield

    def pass_text(self, end: int) -> None:
        source = self.source
        self.output.text(source.text[source.place : end])
        source.place = end

    def trust(self, head: CallHead) -> Trust:
        """Returns the head's trust. Without declared functions, a named format implies calls."""
        return "marked" if head.trust == "declared" and not self.declared else head.trust

    def may_call(self, head: CallHead, found: re.Match[str] | More) -> bool:
        """Whether the name in the opening may be called; True if there is no name."""
        if head.trust == "declared" and not self.declared and not self.named:
            return False
        if found is MORE or "name" not in found.re.groupindex:
            return True
        return self.declared.resolve(found["name"], self.trust(head)) is not None


_SPACE = re.compile(r"\s*")


class CallReader:
    """Reads one marker and the calls that follow it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, hit: Hit, emit_text: Callable[[str], None]) -> Step[bool]:
        """Reads the calls, and returns whether there are any. Other text goes to `emit_text`."""
        head, found = hit
        assert isinstance(head, CallHead)
        context, source = self._context, self._context.source
        reading = CallReading(
            source, context.declared, context.output, context.trust(head), head.ends, emit_text
        )
        source.keep()
        source.place = found.end()
        try:
            for _ in head.body.read(reading, found):
                if reading.is_text:
                    reading.reject_so_far()
                yield
        except NotACall:
            reading.reject()
        if not reading.calls:
            reading.reject()
            return False
        source.forget()
        if head.ends:
            yield from self._skip_ends(head.ends)
        if not source.ended:
            context.output.finish_call()
        return True

    def _skip_ends(self, ends: Pattern) -> Step[None]:
        """Skips the end markers after a call, each once, and the space before them."""
        source, output = self._context.source, self._context.output
        skipped: set[str] = set()
        while True:
            space = _SPACE.match(source.text, source.place)
            self._context.pass_text(space.end() if space else source.place)
            found = ends.at(source.text, source.place, source.ended)
            if found is MORE:
                yield
            elif found and found.group() not in skipped:
                skipped.add(found.group())
                source.place = found.end()
                output.finish_call()
                output.block()
            else:
                break
        if source.ended and ends.prefix.match(source.text, source.place):
            source.place = len(source.text)


class ThoughtReader:
    """Reads thoughts. A call in them is a thought too, unless the thoughts never end."""

    def __init__(self, context: Context, calls: CallReader) -> None:
        self._context, self._calls = context, calls

    def read(self, thoughts: Thoughts) -> Step[None]:
        """Reads thoughts up to their end, or up to a call if they have no end."""
        context, source, output = self._context, self._context.source, self._context.output
        index = context.markers.within(thoughts)
        pass_through = PassThrough(ThoughtDelta, index.may_begin)
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
                yield from context.wait(pass_through)
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
        return isinstance(entry, CallHead) and self._context.may_call(entry, found)

    def _hold_back(self, thoughts: Thoughts) -> Step[bool]:
        """Holds text back from a possible call on, until it is clear whether the thoughts end.

        Returns True if they end: the call is a thought. Returns False if they have no end, and
        puts the held text back into the source.
        """
        source, output = self._context.source, self._context.output
        held, is_thought = StringIO(), False
        while True:
            found, safe = thoughts.closing.find(source.text, source.place, source.ended)
            held.write(source.text[source.place : safe])
            source.place = found.end() if found else safe
            if found or is_thought or held.tell() > MAX_CALL_CHARS:
                output.thought(held.getvalue())
                held, is_thought = StringIO(), True
            if found:
                return True
            if source.ended:
                source.text, source.place = held.getvalue(), 0
                return False
            yield


_LABELS = ("Action", "**Action")
_BARE = re.compile(r"\{|\[(?!TOOL_CALLS\])")
"""The openings of calls without markers."""
_PLAIN = re.compile(rf"{_BARE.pattern}|<(?![|\uff5c]|start_function_call>)")
"""The openings of calls that are not special tokens."""
_INDENT = re.compile(r"[ \t]{0,40}")
_FENCE = re.compile(r"`{3,40}|~{3,40}")
_FENCE_LINE = PassThrough(TextDelta, re.compile("[`\n]"))
_CODE_LINE = PassThrough(TextDelta, re.compile("\n"))


@lru_cache(maxsize=64)
def _fence_end(fence: str) -> Pattern:
    """Returns the pattern of the line that closes a block: a fence of at least the same length."""
    more = chars(f"[{fence[0]} \t]", 0, 40)
    return Pattern(chars(r"[ \t]", 0, 40), fence, more, ahead("\n"))


class TextReader:
    """Reads text up to the next marker, and skips markers in code and quotations."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pass_through = PassThrough(TextDelta, context.markers.inline.may_begin)
        self._fence = self._indent = ""
        self._first_line = False

    def open_fence(self, opening: str) -> None:
        """Treats the following text as code, because the opening of a block is not a call."""
        if fence := _FENCE.search(opening):
            self._fence = fence.group()
            self._first_line = NEWLINE not in opening[fence.start() :]

    def next_hit(self) -> Step[Hit | None]:
        """Passes text on up to the next marker, and returns the marker; None at the end."""
        context, source = self._context, self._context.source
        inline, begins = context.markers.inline, context.output.gap is not None
        while True:
            if begins and (hit := (yield from self._hit_at_line_start())):
                return hit
            if self._fence:
                yield from self._read_code()
            word, place = self._next_word()
            context.pass_text(place)
            begins = word == NEWLINE
            if word:
                hit = inline.hit(source.text, place, source.ended, word, self._may_begin)
                if hit is MORE:
                    yield
                elif hit:
                    return hit
                else:
                    context.pass_text(place + 1)
            elif source.ended:
                return None
            else:
                yield from context.wait(self._pass_through)

    def _next_word(self) -> tuple[str, int]:
        """Returns the next word that may start a marker, and its place or the end of the text."""
        source, inline = self._context.source, self._context.markers.inline
        place = source.place
        while True:
            found, place = inline.find(source.text, place, source.ended)
            word = found.group() if found else ""
            if word in ("", NEWLINE) or inline.is_likely(source.text, place, source.ended, word):
                return word, place
            place += 1

    def _may_begin(self, entry: Entry, found: re.Match[str] | More) -> bool:
        """Whether the opening is a real one, judging by the text before it."""
        context, line = self._context, self._context.output.line
        match entry:
            case CallHead():
                if not context.may_call(entry, found):
                    return False
                if entry.trust == "declared" and line.is_value:
                    return False
                if found is MORE or not self._is_example(entry, found):
                    return True
                line.hold()
                return False
            case Thoughts(plain=True):
                return context.output.gap is not None or line.is_blank
            case _:
                return not line.is_quoted and not line.is_held

    def _is_example(self, head: CallHead, opening: re.Match[str]) -> bool:
        """Whether the text around the opening of a call shows that the call is an example."""
        line = self._context.output.line
        if line.is_quoted or line.is_shown(self._indent):
            return True
        if _PLAIN.match(opening.string, opening.start()) and line.is_aside:
            return True
        if _BARE.match(opening.string, opening.start()) and line.is_sentence:
            return True
        if not line.is_indented(self._indent):
            return False
        # Some models indent their calls. A colon before the call announces an example.
        certain = head.trust == "any" or opening.group().startswith(_LABELS)
        return not certain or line.is_announced

    def _hit_at_line_start(self) -> Step[Hit | None]:
        context, source, line = self._context, self._context.source, self._context.markers.line
        while True:
            indent = _INDENT.match(source.text, source.place)
            start = indent.end() if indent else source.place
            word = line.at(source.text, start)
            if context.output.gap is None:
                self._indent = source.text[source.place : start]
            hit = line.hit(source.text, start, source.ended, word, self._may_begin)
            self._indent = ""
            fence = _FENCE.match(source.text, start)
            more = fence and fence.end() == len(source.text) and not source.ended
            if hit is not MORE and not more:
                break
            yield
        if hit:
            context.pass_text(start)
        elif fence and not context.output.line.is_code:
            context.pass_text(fence.end())
            self._fence, self._first_line = fence.group(), word == FENCES[0]
        return hit

    def _read_code(self) -> Step[None]:
        """Passes on the text of a block of code."""
        context, source = self._context, self._context.source
        while self._fence:
            if not self._first_line:
                context.output.line.pause()
            pass_through = _FENCE_LINE if self._first_line else _CODE_LINE
            found = pass_through.end.search(source.text, source.place)
            if not found:
                context.pass_text(len(source.text))
                if source.ended:
                    return
                yield from context.wait(pass_through)
            elif found.group() != NEWLINE:
                context.pass_text(found.start())
                self._fence = ""  # a backtick in the first line: a code span, not a block
            else:
                context.pass_text(found.end())
                self._first_line = False
                if closing := (yield from source.match(_fence_end(self._fence))):
                    context.output.text(closing.group())
                    context.output.line.begin()
                    self._fence = ""


class Parser:
    """Parses a model's text into events.

    `tools` are the functions that may be called. Without tools, formats that are clearly calls may
    call any name, and other text is a call only if the caller names its format. Raises
    `ConfigError` for an unknown format.
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
        """Parses the next piece of text, and returns the events that are certain."""
        context, pass_through = self._context, self._context.pass_through
        if not text:
            return []
        if pass_through and not pass_through.end.search(text):
            context.output.line.add(text)
            return [pass_through.event(text)]
        context.pass_through = None
        context.source.add(text)
        next(self._steps, None)
        return context.output.take()

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        """Returns the last events. If the text is `truncated`, an incomplete call cannot run."""
        context = self._context
        context.pass_through = None
        context.source.end(truncated=truncated)
        next(self._steps, None)
        context.output.finish(truncated=truncated)
        return context.output.take()

    def _read(self) -> Step[None]:
        source, output = self._context.source, self._context.output
        while hit := (yield from self._text.next_hit()):
            entry, found = hit
            match entry:
                case CallHead():
                    made = yield from self._calls.read(hit, output.text)
                    if entry.fence and not made:
                        self._text.open_fence(found.group())
                case Thoughts():
                    source.place = found.end()
                    yield from self._thoughts.read(entry)
                case Noise():
                    source.place = found.end()
                    output.block()
