"""engine"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import StringIO

from windlass.content import FunctionDeclaration
from windlass.emulation.parser.call import Declared, NotACall, Reading, Trust
from windlass.emulation.parser.format import (
    FENCES,
    NEWLINE,
    Entry,
    Head,
    Hit,
    Markers,
    Noise,
    Thoughts,
    markers_of,
)
from windlass.emulation.parser.formats import format_named
from windlass.emulation.parser.output import Output
from windlass.emulation.parser.pattern import MORE, More, Pattern, ahead, chars
from windlass.emulation.parser.source import LONGEST_CALL, Source, Step
from windlass.events import ModelEvent, TextDelta, ThoughtDelta


@dataclass(frozen=True, slots=True)
class Plain:
    """What text is while nothing is held back, and what would end it."""

    event: type[TextDelta | ThoughtDelta]
    end: re.Pattern[str]


@dataclass(slots=True)
class Context:
    markers: Markers
    declared: Declared
    named: bool
    """Whether somebody said which format the text is in."""
    source: Source = field(default_factory=Source)
    output: Output = field(default_factory=Output)
    plain: Plain | None = None

    def wait(self, plain: Plain) -> Step[None]:
        """Until more text comes. Plain text need not come this way, if nothing is held back."""
        if self.source.place == len(self.source.text) and self.output.is_flowing(plain.event):
            self.plain = plain
        yield

    def pass_text(self, end: int) -> None:
        source = self.source
        self.output.text(source.text[source.place : end])
        source.place = end

    def trust(self, head: Head) -> Trust:
        """Whoever names a format says that what looks like its calls are calls."""
        return "marked" if head.trust == "declared" and not self.declared else head.trust

    def may_call(self, head: Head, found: re.Match[str] | More) -> bool:
        """Whether the name in the opening may be called, as far as it has one."""
        if head.trust == "declared" and not self.declared and not self.named:
            return False
        if found is MORE or "name" not in found.re.groupindex:
            return True
        return self.declared.meant(found["name"], self.trust(head)) is not None


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


_LABELS = ("Action", "**Action")
_INDENT = re.compile(r"[ \t]{0,40}")
_FENCE = re.compile(r"`{3,40}|~{3,40}")
_FENCE_LINE = Plain(TextDelta, re.compile("[`\n]"))
_CODE_LINE = Plain(TextDelta, re.compile("\n"))


@lru_cache(maxsize=64)
def _fence_end(fence: str) -> Pattern:
    """The line that closes a block: a fence that is at least as long."""
    more = chars(f"[{fence[0]} \t]", 0, 40)
    return Pattern(chars(r"[ \t]", 0, 40), fence, more, ahead("\n"))


class TextReader:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._plain = Plain(TextDelta, context.markers.inline.may_begin)
        self._fence = self._indent = ""
        self._first_line = False

    def open_fence(self, opening: str) -> None:
        """A marker that began a block of code is no call: what follows is code."""
        if fence := _FENCE.search(opening):
            self._fence = fence.group()
            self._first_line = NEWLINE not in opening[fence.start() :]

    def next_hit(self) -> Step[Hit | None]:
        """Passes on text up to the next marker; None at the end."""
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
                yield from context.wait(self._plain)

    def _next_word(self) -> tuple[str, int]:
        """The next word that deserves a look, or none, and the place before which there is none."""
        source, inline = self._context.source, self._context.markers.inline
        place = source.place
        while True:
            found, place = inline.find(source.text, place, source.ended)
            word = found.group() if found else ""
            if word in ("", NEWLINE) or inline.is_likely(source.text, place, source.ended, word):
                return word, place
            place += 1

    def _may_begin(self, entry: Entry, found: re.Match[str] | More) -> bool:
        """Whether the text so far lets the opening be one, and not a mention of it."""
        context, line = self._context, self._context.output.line
        match entry:
            case Head():
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

    def _is_example(self, head: Head, opening: re.Match[str]) -> bool:
        """Whether what surrounds the opening of a call says that it is only shown."""
        line = self._context.output.line
        if line.is_quoted or line.is_shown(self._indent):
            return True
        if not line.is_indented(self._indent):
            return False
        # Some models indent their calls. Text that ends with a colon announces an example.
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
        """Passes on a block of code, or what is there of it."""
        context, source = self._context, self._context.source
        while self._fence:
            if not self._first_line:
                context.output.line.pause()
            plain = _FENCE_LINE if self._first_line else _CODE_LINE
            found = plain.end.search(source.text, source.place)
            if not found:
                context.pass_text(len(source.text))
                if source.ended:
                    return
                yield from context.wait(plain)
            elif found.group() != NEWLINE:
                context.pass_text(found.start())
                self._fence = ""  # a backtick in the first line: code within the line, no block
            else:
                context.pass_text(found.end())
                self._first_line = False
                if closing := (yield from source.match(_fence_end(self._fence))):
                    context.output.text(closing.group())
                    context.output.line.begin()
                    self._fence = ""


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
