"""What is known of the line that is being written: whether a marker in it is quoted."""

__all__ = ["Line"]

_MANY = 256
_OPENING_QUOTES = ("“", "«", "「", "『")


class Line:
    """Text is only gathered; it is looked at when a marker comes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._backticks = self._quotes = 0
        self._start = self._end = ""

    def begin(self) -> None:
        """A new line, or a place that is as good as one."""
        self._parts.clear()
        self._backticks = self._quotes = 0
        self._start = self._end = ""

    def add(self, text: str) -> None:
        self._parts.append(text)
        if len(self._parts) > _MANY:
            self._look()

    def _look(self) -> None:
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts.clear()
        _, newline, last = text.rpartition("\n")
        if newline:
            self.begin()
        self._backticks += last.count("`")
        self._quotes += last.count('"')
        self._start = self._start or last.lstrip()[:1]
        self._end = (self._end + last[-8:])[-8:]

    @property
    def is_blank(self) -> bool:
        """Whether nothing but space is on the line so far."""
        self._look()
        return not self._start

    @property
    def is_code(self) -> bool:
        self._look()
        return self._backticks % 2 == 1

    @property
    def is_quoted(self) -> bool:
        """Whether the next character is inside code, quotation marks or a quoted block."""
        return (
            self.is_code
            or self._quotes % 2 == 1
            or self._start == ">"
            or self._end.endswith(_OPENING_QUOTES)
        )

    @property
    def is_value(self) -> bool:
        """Whether the next character begins the value of a key: `"key": `."""
        self._look()
        end = self._end.rstrip()
        return end.endswith(":") and end[:-1].rstrip().endswith('"')
