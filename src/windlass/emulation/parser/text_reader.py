"""Text, up to the next marker that is one: not quoted, not in a block of code."""

import re
from functools import lru_cache

from windlass.emulation.parser.context import Context, Plain
from windlass.emulation.parser.format import Head, Thoughts
from windlass.emulation.parser.markers import FENCES, NEWLINE, Entry, Hit
from windlass.emulation.parser.pattern import MORE, More, Pattern, ahead, chars
from windlass.emulation.parser.source import Step
from windlass.events import TextDelta

__all__ = ["TextReader"]

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
