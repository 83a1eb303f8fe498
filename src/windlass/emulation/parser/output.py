# ruff: noqa: RUF001 - these characters are intended
"""The parser's output as events, and the context of the current position in the text.

`Line` decides whether a marker is only an example: inside a code span, quotation marks, a quoted
block, a table, a diff, a log line, an HTML comment or an indented block it is not a call. Markers
that are not special tokens are also examples in a heading, a list item, brackets or a formula.
`ParserOutput` joins adjacent text, and drops the blank space between blocks.
"""

import re
from collections import Counter
from io import StringIO

import msgspec

from windlass.content import FunctionCall, new_call_id
from windlass.emulation.parser.source import MAX_CALL_CHARS
from windlass.events import (
    ModelEvent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)

_MAX_PARTS = 256
_MAX_HELD_MARK = 4_096
_HEAD_CHARS = 80
_TAIL_CHARS = 8
_TOKENS = re.compile(
    "`+|\"+|'+|<!--|-->|</?(?:code|pre)>|[“”„‘’«»‹›「」『』]|[()\\[\\]（）]|\\$+|\n"
)
_MARKS = "`\"'<!->“”„‘’«»‹›「」『』()[]（）$"
_TAGS = {"<code>": "</code>", "<pre>": "</pre>"}
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
_BRACKETS = {
    "(": ("(", 1),
    ")": ("(", -1),
    "（": ("(", 1),
    "）": ("(", -1),
    "[": ("[", 1),
    "]": ("[", -1),
}
"""The kind of each bracket, and whether it opens or closes."""
_FACES = (":", ";", "=", "-")
"""Characters before a bracket that make it a smiley."""
_FORMULA = "$$"
_CODE_INDENT = 4
"""Columns of indentation that make a line code."""

_LEVEL = "(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|LOG)"
_DAY, _TIME = r"\d{4}[-/.]\d\d[-/.]\d\d", r"\d\d:\d\d:\d\d"
_LOG = re.compile(
    rf"""\[?{_DAY}[ T]\d\d:\d\d | \[?{_DAY}\]?\s+\W?{_LEVEL}\b | \[?{_TIME}\b
    | [A-Z][a-z]{{2}}\ +\d{{1,2}}\ {_TIME} | [IWEF]\d{{4}}\ {_TIME} | \[\ *\d+\.\d+\]\s
    | [<\[(]{_LEVEL.lower()}[>\])] | \W?{_LEVEL}(?:\W|$) | (?:time|ts|level)=""",
    re.VERBOSE,
)
"""The start of a log line: a time or a level."""
_FENCE_LIKE = re.compile(r"`{3,}\w*\s*$")
_TABLE_RULE = re.compile(r"[ |]*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$")
_DIFF_START = re.compile(r"@@ -\d|diff --git |\+\+\+ ")
_DIFF_PREFIXES = (" ", "+", "-", "@", "\\", "\t")
_ITEM_OR_HEADING = re.compile(r"\s*(?:[-*+•‣◦]|\d{1,9}[.)]|\#{1,6})\s")
_DIFF_LINE = re.compile(r"\+(?!\d)|-(?:$|[^\s\d-])|@@ ")


class Line:
    """The text around the current position. It is collected, and scanned at the next marker."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._paused = False
        self._comment = False
        self._reset()

    def _reset(self) -> None:
        self._last = ""
        """The last character that is not space."""
        self._quotes: list[str] = []
        """The closing marks of the open quotations."""
        self._brackets: Counter[str] = Counter()
        """The numbers of open brackets in the line."""
        self._end_paragraph()

    def begin(self) -> None:
        """Starts a new line."""
        self._scan_parts()
        self._paused = False
        self._reset()

    def pause(self) -> None:
        """Ignores all text up to the next `begin`, because it is code."""
        self._scan_parts()
        self._paused = True

    def add(self, text: str) -> None:
        if self._paused:
            return
        self._parts.append(text)
        if len(self._parts) > _MAX_PARTS:
            self._scan_parts(whole=False)

    @property
    def is_blank(self) -> bool:
        """Whether the line has only space so far."""
        self._scan_parts()
        return not self._head.strip()

    @property
    def is_code(self) -> bool:
        """Whether the next character is inside a code span."""
        self._scan_parts()
        return self._code > 0

    @property
    def is_held(self) -> bool:
        """Whether the next character is still in a block that shows an example, or in a diff."""
        self._scan_parts()
        return self._comment or self._held_block or self._is_diff(self._head)

    def _is_diff(self, head: str) -> bool:
        return self._diff and head.startswith(_DIFF_PREFIXES)

    @property
    def is_quoted(self) -> bool:
        """Whether the next character is inside code, quotation marks or a quoted block."""
        self._scan_parts()
        return bool(self._code or self._quotes or self._tag) or self._head.lstrip().startswith(">")

    @property
    def is_value(self) -> bool:
        """Whether the next character starts the value of a key: `"key": `."""
        self._scan_parts()
        end = self._end.rstrip()
        return end.endswith(":") and end[:-1].rstrip().endswith('"')

    @property
    def is_aside(self) -> bool:
        """Whether the next character is in brackets, a formula, a list item or a heading.

        A call right after a word of an item is not part of it: some models write no newline.
        """
        self._scan_parts()
        item = self._end[-1:].isspace() and _ITEM_OR_HEADING.match(self._head) is not None
        return item or self._formula or any(self._brackets.values())

    @property
    def is_sentence(self) -> bool:
        """Whether the next character is inside a sentence, after a word or a comma."""
        self._scan_parts()
        before = self._end.rstrip()[-1:]
        return self._end[-1:].isspace() and (before.isalnum() or before in (",", "，", "、"))

    def is_shown(self, indent: str) -> bool:
        """Whether a marker after this indentation is in a comment, a table, a diff or a log."""
        self._scan_parts()
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
        """Whether a marker after this indentation starts a line of indented code."""
        self._scan_parts()
        space = self._head + indent
        return not space.strip() and len(space.expandtabs(_CODE_INDENT)) >= _CODE_INDENT

    @property
    def is_announced(self) -> bool:
        """Whether the text before this line ends with a colon."""
        self._scan_parts()
        return self._last == ":"

    def hold(self) -> None:
        """Notes that a marker here was an example.

        Its code span, quotation or block then lasts until it is closed or the paragraph ends, and
        not only to the end of the line.
        """
        if self._code or self._quotes:
            self._held_span = True
        else:
            self._held_block = True

    def _scan_parts(self, *, whole: bool = True) -> None:
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts.clear()
        cut = len(text) if whole else len(text[:-_TAIL_CHARS].rstrip(_MARKS))
        if 0 < len(text) - cut < _MAX_HELD_MARK:  # the next piece may continue the last mark
            self._parts.append(text[cut:])
            text = text[:cut]
        self._scan(self._last_paragraph(text))

    def _last_paragraph(self, text: str) -> str:
        """Returns the last paragraph. Earlier ones matter only if they have a comment."""
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
        self._head = (self._head + text[:_HEAD_CHARS])[:_HEAD_CHARS]
        self._end = (self._end + text[-_TAIL_CHARS:])[-_TAIL_CHARS:]
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
        self._brackets.clear()
        begins = _DIFF_START.match(self._head) is not None
        self._diff = begins or (self._diff and self._head.startswith(_DIFF_PREFIXES))
        self._head = self._end = ""

    def _end_paragraph(self) -> None:
        self._head = self._end = ""
        self._code = 0
        """The number of backticks that opened the code span; 0 outside of one."""
        self._tag = ""
        """The end tag of the HTML element of code that is open."""
        self._quotes.clear()
        self._brackets.clear()
        self._formula = False
        self._diff = self._table = self._held_span = self._held_block = False

    def _take(self, mark: str, before: str, after: str) -> None:
        """Reads a mark of code, of a comment or of a quotation."""
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
        elif mark[0] == "$":
            self._formula = self._formula != (mark == _FORMULA)
        elif mark in _BRACKETS:
            kind, change = _BRACKETS[mark]
            if change < 0 or before not in _FACES:
                self._brackets[kind] = max(0, self._brackets[kind] + change)
        elif mark[0] == "<":
            self._tag = "" if mark == self._tag else self._tag or _TAGS.get(mark, "")
        elif mark[0] in "\"'" and len(mark) % 2 == 0:
            return  # opened and closed at once
        elif (quote := mark[0]) in self._quotes:
            if quote not in _APOSTROPHES or not after.isalnum():
                del self._quotes[self._quotes.index(quote) :]
        elif quote in _CLOSING and _opens(quote, before, after):
            self._quotes.append(_CLOSING[quote])


def _opens(mark: str, before: str, after: str) -> bool:
    """Whether the mark can open a quotation, and is not an apostrophe or an inch sign."""
    match mark:
        case "'" | "”" | "»":
            return not before.isalnum() and not after.isspace() and not after.isdigit()
        case '"':
            return not before.isdigit() or after.isalnum()
        case _:
            return True


_MAX_GAP = 256


class ParserOutput:
    """Collects the events of a text."""

    def __init__(self) -> None:
        self.line = Line()
        self.calls = 0
        self.gap: str | None = ""
        """Space since the end of a block or the start of the text; None after other text."""
        self._events: list[ModelEvent] = []
        self._text: list[str] = []
        self._pieces: list[str] = []
        self.write = self._pieces.append
        """Adds a piece to the arguments of the current call."""
        self._json = StringIO()
        self._call: tuple[str, str] | None = None
        self._closing = False
        """The call's arguments are complete; the next token shows whether the call is."""
        self._blocks = False

    def take(self) -> list[ModelEvent]:
        """Returns the events since the last call."""
        if self._pieces:
            self._flush_pieces()
        if self._text:
            self._flush_text()
        events, self._events = self._events, []
        return events

    def is_flowing(self, event: type[ModelEvent]) -> bool:
        """Whether the next piece of text can pass unchanged."""
        return event is ThoughtDelta or self.gap is None

    def text(self, text: str) -> None:
        if self.gap is not None:
            if not (text := self._past_gap(text)):
                return
        elif not text:
            return
        self.finish_call()
        self._text.append(text)
        self.line.add(text)

    def thought(self, text: str) -> None:
        if text:
            self.finish_call()
            self.block()
            self._flush_text()
            self._events.append(ThoughtDelta(text))

    def block(self) -> None:
        """Starts or ends a block that is not text: the space around it is not text either."""
        self.gap, self._blocks = "", True
        self.line.begin()

    def finish(self, *, truncated: bool) -> None:
        if self._closing and truncated:
            self.invalidate()
        self.finish_call()
        if self.gap and not self._blocks:
            self._text.append(self.gap)
        self.gap = ""

    def _past_gap(self, text: str) -> str:
        """Returns the text with the space before it, or nothing if it is all space so far."""
        assert self.gap is not None
        gap = self.gap + text[: _MAX_GAP + 1]
        if len(gap) <= _MAX_GAP and not gap.strip():
            self.gap = gap
            return ""
        text, self.gap = self.gap + text, None
        return text

    def start_call(self, name: str) -> None:
        self.finish_call()
        self.block()
        self._flush_text()
        self._call = (name, new_call_id())
        self._json = StringIO()
        self._events.append(ToolCallStarted(self.calls, self._call[1], name))

    def end_call(self) -> None:
        """Ends the arguments. `finish_call` ends the call."""
        self._closing = True
        self.block()

    def finish_call(self) -> None:
        if self._closing and self._call:
            self._flush_pieces()
            name, call_id = self._call
            call = FunctionCall(name, self._json.getvalue(), call_id)
            self._events.append(ToolCallEnded(self.calls, call))
            self._call, self._closing = None, False
            self.calls += 1

    def invalidate(self) -> None:
        """Makes the arguments invalid JSON, so that the call cannot run."""
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
        """Writes the pieces up to the limit. Without its end, a longer call is invalid."""
        json = "".join(self._pieces)[: MAX_CALL_CHARS - self._json.tell()]
        self._pieces.clear()
        if json:
            self._json.write(json)
            self._events.append(ToolCallDelta(self.calls, json))
