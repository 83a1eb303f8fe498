"""output"""

import re
from io import StringIO

import msgspec

from windlass.content import FunctionCall, new_call_id
from windlass.emulation.parser.source import LONGEST_CALL
from windlass.events import (
    ModelEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)

# ruff: noqa: RUF001 - these quotation marks are looked for


_MANY = 256
_LONG = 4_096
_HEAD = 80
_TAIL = 8
_TOKENS = re.compile("`+|\"+|'+|<!--|-->|[“”„‘’«»‹›「」『』]|\n")
_MARKS = "`\"'<!->“”„‘’«»‹›「」『』"
_CLOSING = {
    '"': '"',
    "'": "'",
    "“": "”",
    "”": "”",
    "„": "“",
    "‘": "’",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
}
_APOSTROPHES = ("'", "’")
_WIDTH = 4
"""Columns of indentation that make a line code."""

_LEVEL = "(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|LOG)"
_DAY, _TIME = r"\d{4}[-/.]\d\d[-/.]\d\d", r"\d\d:\d\d:\d\d"
_LOG = re.compile(
    rf"""\[?{_DAY}[ T]\d\d:\d\d | \[?{_DAY}\]?\s+\W?{_LEVEL}\b | \[?{_TIME}\b
    | [A-Z][a-z]{{2}}\ +\d{{1,2}}\ {_TIME} | [IWEF]\d{{4}}\ {_TIME} | \[\ *\d+\.\d+\]\s
    | [<\[(]{_LEVEL.lower()}[>\])] | \W?{_LEVEL}(?:\W|$) | (?:time|ts|level)=""",
    re.VERBOSE,
)
"""How a line of a log begins: with a time or a level."""
_FENCE_LIKE = re.compile(r"`{3,}\w*\s*$")
_TABLE_RULE = re.compile(r"[ |]*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$")
_DIFF_BEGINS = re.compile(r"@@ -\d|diff --git |\+\+\+ ")
_DIFF_GOES_ON = (" ", "+", "-", "@", "\\", "\t")
_DIFF_LINE = re.compile(r"\+(?!\d)|-(?:$|[^\s\d-])|@@ ")


class Line:
    """Text is only gathered; it is looked at when a marker comes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._paused = False
        self._comment = False
        self._reset()

    def _reset(self) -> None:
        self._last = ""
        """The last character that is no space."""
        self._quotes: list[str] = []
        """What closes the quotation marks that are open."""
        self._end_paragraph()

    def begin(self) -> None:
        """A new line, or a place that is as good as one."""
        self._look()
        self._paused = False
        self._reset()

    def pause(self) -> None:
        """What comes until something begins is code: none of its marks mean anything."""
        self._look()
        self._paused = True

    def add(self, text: str) -> None:
        if self._paused:
            return
        self._parts.append(text)
        if len(self._parts) > _MANY:
            self._look(whole=False)

    # What surrounds the next character.

    @property
    def is_blank(self) -> bool:
        """Whether nothing but space is on the line so far."""
        self._look()
        return not self._head.strip()

    @property
    def is_code(self) -> bool:
        """Whether the next character is inside a code span."""
        self._look()
        return self._code > 0

    @property
    def is_held(self) -> bool:
        """Whether the next character still belongs to something that shows a call, or to a diff."""
        self._look()
        return self._comment or self._held_block or self._is_diff(self._head)

    def _is_diff(self, head: str) -> bool:
        return self._diff and head.startswith(_DIFF_GOES_ON)

    @property
    def is_quoted(self) -> bool:
        """Whether the next character is inside code, quotation marks or a quoted block."""
        self._look()
        return bool(self._code or self._quotes) or self._head.lstrip().startswith(">")

    @property
    def is_value(self) -> bool:
        """Whether the next character begins the value of a key: `"key": `."""
        self._look()
        end = self._end.rstrip()
        return end.endswith(":") and end[:-1].rstrip().endswith('"')

    def is_shown(self, indent: str) -> bool:
        """Whether a marker after this indentation stands in something that shows text to a reader:
        a comment, a table, a diff or a log."""
        self._look()
        head, bare = self._head + indent, self._head.strip()
        return (
            self._comment
            or self._held_block
            or self._table
            or bare.startswith("|")
            or self._end.rstrip().endswith("|")
            or self._is_diff(head)
            or bool(_DIFF_LINE.match(head) or _LOG.match(bare))
        )

    def is_indented(self, indent: str) -> bool:
        """Whether a marker after this indentation is the first thing on a line of code."""
        self._look()
        space = self._head + indent
        return not space.strip() and len(space.expandtabs(_WIDTH)) >= _WIDTH

    @property
    def is_announced(self) -> bool:
        """Whether the text before this line ends with a colon."""
        self._look()
        return self._last == ":"

    def hold(self) -> None:
        """A marker here was only shown: what it belongs to lasts until it is closed, or until the
        paragraph ends, and not only to the end of the line."""
        if self._code or self._quotes:
            self._held_span = True
        else:
            self._held_block = True

    # Looking at the text.

    def _look(self, *, whole: bool = True) -> None:
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts.clear()
        cut = len(text) if whole else len(text[:-_TAIL].rstrip(_MARKS))
        if 0 < len(text) - cut < _LONG:  # the next piece may belong to the last mark
            self._parts.append(text[cut:])
            text = text[:cut]
        self._scan(self._last_paragraph(text))

    def _last_paragraph(self, text: str) -> str:
        """Earlier ones matter only if they have a comment."""
        cut = text.rfind("\n\n")
        if cut < 0 or self._comment or "<!--" in text:
            return text
        self._last = text[:cut].rstrip()[-1:] or self._last
        self._end_paragraph()
        return text[cut + 2 :]

    def _scan(self, text: str) -> None:
        place = 0
        for found in _TOKENS.finditer(text):
            mark, start, end = found.group(), found.start(), found.end()
            if mark == "\n":
                self._extend(text[place:start])
                self._end_line()
                place = end
            elif self._comment:
                self._comment = mark != "-->"
            else:
                before = text[start - 1] if start > place else self._end[-1:]
                self._take(mark, before, text[end : end + 1])
        self._extend(text[place:])

    def _extend(self, text: str) -> None:
        self._head = (self._head + text[:_HEAD])[:_HEAD]
        self._end = (self._end + text[-_TAIL:])[-_TAIL:]
        self._last = text.rstrip()[-1:] or self._last

    def _end_line(self) -> None:
        if not self._head.strip():
            self._end_paragraph()
            return
        if not self._held_span:
            self._quotes.clear()
            if not _FENCE_LIKE.search(self._end):
                self._code = 0
        self._held_span = bool(self._code or self._quotes)
        self._table = self._table or _TABLE_RULE.match(self._head) is not None
        begins = _DIFF_BEGINS.match(self._head) is not None
        self._diff = begins or (self._diff and self._head.startswith(_DIFF_GOES_ON))
        self._head = self._end = ""

    def _end_paragraph(self) -> None:
        self._head = self._end = ""
        self._code = 0
        """How many backticks have opened a code span; none if 0."""
        self._quotes.clear()
        self._diff = self._table = self._held_span = self._held_block = False

    def _take(self, mark: str, before: str, after: str) -> None:
        """A mark of code, of a comment or of a quotation."""
        if mark[0] == "`":
            count = len(mark) - (before == "\\" and not self._code)
            if not self._code:
                self._code = count
            elif self._code == count:
                self._code = 0
        elif self._code:
            return
        elif mark == "<!--":
            self._comment = True
        elif mark[0] in "\"'" and len(mark) % 2 == 0:
            return  # opened and closed at once
        elif (quote := mark[0]) in self._quotes:
            if quote not in _APOSTROPHES or not after.isalnum():
                del self._quotes[self._quotes.index(quote) :]
        elif quote in _CLOSING and _opens(quote, before, after):
            self._quotes.append(_CLOSING[quote])


def _opens(mark: str, before: str, after: str) -> bool:
    """Whether the mark can open a quotation: it is no apostrophe, and no sign for inches."""
    match mark:
        case "'" | "”" | "»":
            return not before.isalnum() and not after.isspace() and not after.isdigit()
        case '"':
            return not before.isdigit() or after.isalnum()
        case _:
            return True


_WIDEST_GAP = 256
_SURROGATES = re.compile("[\ud800-\udfff]")


class Output:
    def __init__(self) -> None:
        self.line = Line()
        self.calls = 0
        self.gap: str | None = ""
        """Space since a block ended or the text began; None once other text has come."""
        self._events: list[ModelEvent] = []
        self._text: list[str] = []
        self._pieces: list[str] = []
        self.write = self._pieces.append
        """Takes the next piece of the arguments of the call that has been started."""
        self._json = StringIO()
        self._call: tuple[str, str] | None = None
        self._closing = False
        """The call's arguments are all there; whether the call is, the next thing tells."""
        self._blocks = False

    def take(self) -> list[ModelEvent]:
        """The events since the last time."""
        if self._pieces:
            self._flush_pieces()
        if self._text:
            self._flush_text()
        events, self._events = self._events, []
        return events

    def is_flowing(self, event: type[ModelEvent]) -> bool:
        """Whether the next piece can follow the last one as it is."""
        return event is ThoughtDelta or self.gap is None

    def text(self, text: str) -> None:
        if self.gap is not None:
            if not (text := self._past_gap(text)):
                return
        elif not text:
            return
        self.settle()
        self._text.append(text)
        self.line.add(text)

    def thought(self, text: str) -> None:
        if text:
            self.settle()
            self.block()
            self._flush_text()
            self._events.append(ThoughtDelta(text))

    def block(self) -> None:
        """Something other than text begins or ends here: the space around it is not text."""
        self.gap, self._blocks = "", True
        self.line.begin()

    def finish(self, *, truncated: bool) -> None:
        if self._closing and truncated:
            self.spoil()
        self.settle()
        if self.gap and not self._blocks:
            self._text.append(self.gap)
        self.gap = ""

    def _past_gap(self, text: str) -> str:
        """The text with the space before it, or nothing if there is no more than space so far."""
        assert self.gap is not None
        gap = self.gap + text[: _WIDEST_GAP + 1]
        if len(gap) <= _WIDEST_GAP and not gap.strip():
            self.gap = gap
            return ""
        text, self.gap = self.gap + text, None
        return text

    # One call at a time.

    def start_call(self, name: str) -> None:
        self.settle()
        self.block()
        self._flush_text()
        self._call = (name, new_call_id())
        self._json = StringIO()
        self._events.append(ToolCallStarted(self.calls, self._call[1], name))

    def end_call(self) -> None:
        """The arguments end here; `settle` ends the call."""
        self._closing = True
        self.block()

    def settle(self) -> None:
        if self._closing and self._call:
            self._flush_pieces()
            name, call_id = self._call
            call = FunctionCall(name, self._json.getvalue(), call_id)
            self._events.append(ToolCallEnded(self.calls, call))
            self._call, self._closing = None, False
            self.calls += 1

    def spoil(self) -> None:
        """Makes sure that the call cannot run, whatever its text looks like."""
        while self._readable():
            self.write("}")

    def _readable(self) -> bool:
        self._flush_pieces()
        try:
            msgspec.json.decode(self._json.getvalue() or "{}")
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def _flush_text(self) -> None:
        if self._text:
            self._events.append(TextDelta("".join(self._text)))
            self._text.clear()

    def _flush_pieces(self) -> None:
        """What passes the limit is dropped: that spoils the call, since its end is missing."""
        json = "".join(self._pieces)[: LONGEST_CALL - self._json.tell()]
        self._pieces.clear()
        if json:
            self._json.write(json)
            self._events.append(ToolCallDelta(self.calls, json))
