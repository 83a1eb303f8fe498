"""JSON as models write it, read piece by piece and written as strict JSON.

What is strict passes as it is. What is not is put right where its meaning is plain: trailing
commas, single quotes, raw newlines, Python's literals, names without quotes, comments, missing last
brackets. Anything else passes as it is too, so that whoever reads the result hears what is wrong.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from windlass.emulation.parser.escapes import escape_reach, json_escaped, printable, strict_escape
from windlass.emulation.parser.json_grammar import LITERALS, NEXT, NUMBER, PLAIN, State
from windlass.emulation.parser.pattern import Pattern, alt
from windlass.emulation.parser.source import Source, Step

__all__ = ["JSON", "LOOSE", "Ending", "JsonReader", "Style"]

Ending = Literal["whole", "cut", "broken"]

_WORD = re.compile(r"""[^\s{}\[\](),:"'<`]+""")
_LOOSE_WORD = re.compile(r"""[^{}\[\],:<]+""")
_KEY = re.compile(r"[^\W\d][\w$.-]*")
_LONGEST_WORD = 200
_RUNS = {
    '"': re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]+'),
    "'": re.compile(r"[^'\"\\\x00-\x1f\ud800-\udfff]+"),
}
_COMMENT = Pattern(alt("//", "/*"))
_COMMENT_ENDS = {"//": Pattern("\n"), "/*": Pattern("*/")}
_BRACKETS = ("{", "}", "[", "]")
_DELIMITERS = (",", "}", "]", ")", "\n")


@dataclass(frozen=True, slots=True)
class Style:
    """How far from JSON the writing is."""

    loose: bool = False
    """A text may stand without quotes."""
    quotes: Pattern | None = None
    """Tokens that stand for quotation marks, around text without escapes."""


JSON = Style()
LOOSE = Style(loose=True, quotes=Pattern(alt('<|"|>', "<escape>", "<ctrl46>")))


class JsonReader:
    """Reads one value. `stops` end it wherever they stand outside of text."""

    def __init__(
        self,
        source: Source,
        write: Callable[[str], object],
        style: Style = JSON,
        stops: Pattern | None = None,
    ) -> None:
        self._source, self._write, self._style, self._stops = source, write, style, stops
        self._stack: list[str] = []
        self._state: State = "start"
        self._unsure = False
        """The last thing is a number that more digits could change."""
        self._comma: list[str] = []
        """A comma and the space after it: it may prove to be one too many."""

    def value(self) -> Step[Ending]:
        source = self._source
        while True:
            self._read_plain()
            if self._state == "whole":
                return "whole"
            if source.place < len(source.text):
                token = source.text[source.place]
                read = self._read_string if token in "\"'" else self._read_special
                if ending := (yield from read(token)):
                    return ending
            elif source.ended:
                return "cut"
            else:
                yield

    @property
    def is_sure(self) -> bool:
        """Whether more text could not have changed the value that was read."""
        return not self._unsure

    def close(self) -> bool:
        """Adds the brackets that are missing at the end, if nothing else is."""
        if self._state not in ("member", "item") or self._unsure:
            return False
        self._write("".join(reversed(self._stack)))
        self._state = "whole"
        return True

    def _complete(self) -> State:
        """The state after a value."""
        if not self._stack:
            return "whole"
        return "member" if self._stack[-1] == "}" else "item"

    # What is strict already.

    def _read_plain(self) -> None:
        """Reads the tokens that need no thought, and writes them in one piece, as they are."""
        source, state = self._source, self._state
        text, start = source.text, source.place
        place = start
        while state != "whole" and (found := PLAIN.match(text, place)):
            kind = found.lastgroup or ""
            if kind == "space":
                place = found.end()
                if self._comma:
                    self._comma.append(found.group())
                    start = place
                continue
            if kind not in NEXT[state]:
                break
            if self._comma:
                self._release(kind)
            place = found.end()
            if kind in ("object", "list"):
                self._stack.append("}" if kind == "object" else "]")
            elif kind in ("close_object", "close_list"):
                self._stack.pop()
            state = NEXT[state][kind] or self._complete()
        if place > start:
            self._write(text[start:place])
            self._unsure = False
        source.place, self._state = place, state

    def _release(self, kind: str) -> None:
        """Writes the comma that was held back, unless a bracket closes right after it."""
        self._write("".join(self._comma[kind in ("close_object", "close_list") :]))
        self._comma.clear()

    def _pass(self, kind: str) -> None:
        """What a token changes that has been found to fit."""
        self._state = NEXT[self._state][kind] or self._complete()

    # What needs thought.

    def _read_special(self, token: str) -> Step[Ending | None]:
        source, style = self._source, self._style
        if stop := (yield from self._match(self._stops, token)):
            source.place = stop.start()
            return "whole" if self.close() else "broken"
        if mark := (yield from self._match(style.quotes, token)):
            return (yield from self._read_quoted(Pattern(mark.group())))
        if token == "/" and (mark := (yield from source.match(_COMMENT))):
            yield from source.until(_COMMENT_ENDS[mark.group()])
            return None
        if token == "," and "comma" in NEXT[self._state]:
            source.place += 1
            self._comma.append(",")
            self._pass("comma")
            return None
        if token in "{}[],:()":
            return (yield from self._read_broken())
        return (yield from self._read_word())

    def _match(self, pattern: Pattern | None, token: str) -> Step[re.Match[str] | None]:
        if pattern and token in pattern.letters:
            return (yield from self._source.match(pattern))
        return None

    def _read_string(self, quote: str) -> Step[Ending | None]:
        if "text" not in NEXT[self._state]:
            return (yield from self._read_broken())
        self._release("text")
        self._source.place += 1
        self._write('"')
        if not (yield from self._read_text(quote)):
            return "cut"
        self._write('"')
        self._pass("text")
        return None

    def _read_text(self, quote: str) -> Step[bool]:
        """Reads up to the closing quote; False if there is none."""
        source, write, run = self._source, self._write, _RUNS[quote]
        while True:
            text, place = source.text, source.place
            if found := run.match(text, place):
                write(found.group())
                source.place = place = found.end()
            left = len(text) - place
            letter = text[place] if left else ""
            needed = escape_reach(text, place) if letter == "\\" else 1
            if left < needed and not source.ended:
                yield
            elif not left:
                return False
            elif letter == quote:
                source.place += 1
                return True
            else:
                self._read_odd(text, place)

    def _read_odd(self, text: str, place: int) -> None:
        """A character inside a text that JSON has another way to write."""
        if text[place] == "\\":
            if place + 1 == len(text):
                written, end = "\\", place + 1
            else:
                written, end = strict_escape(text, place)
        else:
            written, end = json_escaped(text[place]), place + 1
        self._write(written)
        self._source.place = end

    def _read_quoted(self, mark: Pattern) -> Step[Ending | None]:
        """Text between tokens that stand for quotation marks."""
        if "text" not in NEXT[self._state]:
            return (yield from self._read_broken())
        self._release("text")
        self._write('"')
        source = self._source
        while True:
            found, safe = mark.find(source.text, source.place, source.ended)
            self._write(json_escaped(source.text[source.place : safe]))
            source.place = found.end() if found else safe
            if found:
                break
            if source.ended:
                return "cut"
            yield
        self._write('"')
        self._pass("text")
        return None

    def _read_word(self) -> Step[Ending | None]:
        source, kind = self._source, _LOOSE_WORD if self._style.loose else _WORD
        while True:
            found = kind.match(source.text, source.place)
            end = found.end() if found else source.place
            if source.ended or end < len(source.text) or end - source.place > _LONGEST_WORD:
                break
            yield
        word = source.text[source.place : end].rstrip()
        json, kind = self._meaning(word)
        if kind not in NEXT[self._state] or len(word) > _LONGEST_WORD:
            return (yield from self._read_broken())
        self._release(kind)
        self._write(json)
        source.place += len(word)
        self._pass(kind)
        self._unsure = source.place == len(source.text) and bool(NUMBER.fullmatch(word))
        return None

    def _meaning(self, word: str) -> tuple[str, str]:
        """The word as JSON, and as which kind of token; no kind if it has no plain meaning."""
        if "key" in NEXT[self._state]:
            return (f'"{word}"', "text") if _KEY.fullmatch(word) else (word, "")
        if word in LITERALS:
            return LITERALS[word], "literal"
        if NUMBER.fullmatch(word):
            return word, "literal"
        return (f'"{json_escaped(word)}"', "text") if self._style.loose and word else (word, "")

    def _read_broken(self) -> Step[Ending]:
        """Passes on what cannot be read, up to where its brackets are closed, or to a delimiter."""
        self._release("")
        source, depth = self._source, len(self._stack)
        stops = (self._stops.part,) if self._stops else ()
        edges = Pattern(alt(*(_BRACKETS if depth else _DELIMITERS), *stops))
        while True:
            found, safe = edges.find(source.text, source.place, source.ended)
            bracket = found.group() if found and depth and found.group() in _BRACKETS else ""
            end = safe + len(bracket)
            self._write(printable(source.text[source.place : end]))
            source.place = end
            if bracket:
                depth += 1 if bracket in "{[" else -1
            if bracket and depth:
                continue
            if found:
                return "broken"
            if source.ended:
                return "cut"
            yield
