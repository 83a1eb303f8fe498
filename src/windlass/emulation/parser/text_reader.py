"""Text, up to the next marker that is one: not quoted, not in a block of code."""

import re

from windlass.emulation.parser.context import Context, Plain
from windlass.emulation.parser.format import Head, Thoughts
from windlass.emulation.parser.markers import FENCES, NEWLINE, Entry, Hit
from windlass.emulation.parser.pattern import MORE, More, Pattern, ahead, chars
from windlass.emulation.parser.source import Step
from windlass.events import TextDelta

__all__ = ["TextReader"]

_INDENT = re.compile(r"[ \t]{0,40}")
_FENCE_ENDS = {
    fence: Pattern(chars(r"[ \t]", 0, 40), fence, chars(f"[{fence[0]} \t]", 0, 40), ahead("\n"))
    for fence in FENCES
}
_FENCE_LINE = Plain(TextDelta, re.compile("[`\n]"))
_CODE_LINE = Plain(TextDelta, re.compile("\n"))


class TextReader:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._plain = Plain(TextDelta, context.markers.inline.may_begin)
        self._fence = ""
        self._first_line = False

    def open_fence(self, opening: str) -> None:
        """A marker that began a block of code is no call: what follows is code."""
        self._fence, self._first_line = opening.lstrip()[:3], NEWLINE not in opening

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
                if not context.may_call(entry, found) or line.is_quoted:
                    return False
                return entry.trust != "declared" or not line.is_value
            case Thoughts(plain=True):
                return context.output.gap is not None or line.is_blank
            case _:
                return not line.is_quoted

    def _hit_at_line_start(self) -> Step[Hit | None]:
        context, source, line = self._context, self._context.source, self._context.markers.line
        while True:
            indent = _INDENT.match(source.text, source.place)
            start = indent.end() if indent else source.place
            word = line.at(source.text, start)
            hit = line.hit(source.text, start, source.ended, word, self._may_begin)
            if hit is not MORE:
                break
            yield
        if hit:
            context.pass_text(start)
        elif word in FENCES:
            context.pass_text(start + len(word))
            self._fence, self._first_line = word, word == FENCES[0]
        return hit

    def _read_code(self) -> Step[None]:
        """Passes on a block of code, or what is there of it."""
        context, source = self._context, self._context.source
        while self._fence:
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
                if closing := (yield from source.match(_FENCE_ENDS[self._fence])):
                    context.output.text(closing.group())
                    self._fence = ""
