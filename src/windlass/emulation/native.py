"""A native turn as it is read, with the calls that its server left in the text. Pure."""

from collections.abc import Callable

from windlass.emulation.reading import Mode, TextParser, TurnReader, Wanted
from windlass.events import FinishReason, ModelEvent, TextDelta

__all__ = ["NativeReader", "begins_like_call"]

_OPENERS = (
    "<",
    "{",
    "[",
    "```",
    ">>>",
    "✿",
    "Action:",
    "Thought:",
    "Request function call:",
    "functools[",
)
_LONGEST_WAIT = 100
"""Characters; more blank space than that is somebody's layout."""


def begins_like_call(text: str) -> bool | None:
    """Whether an answer begins as a call in some format might; None while that is open."""
    begun = text.lstrip()
    if any(begun.startswith(opener) for opener in _OPENERS):
        return True
    if len(text) > _LONGEST_WAIT:
        return False
    return None if any(opener.startswith(begun) for opener in _OPENERS) else False


class NativeReader(TurnReader):
    """Reads one turn of a model with native calls, and notices those that it wrote as text.

    Some servers drop the tools, or do not read their own model's format. Only an answer that begins
    like a call is parsed; any other text passes as it comes.
    """

    mode: Mode = "native"

    def __init__(
        self, make_parser: Callable[[], TextParser] | None, *, wanted: Wanted = "anything"
    ) -> None:
        super().__init__(_NOTHING, wanted=wanted)
        self._make_parser = make_parser
        self._like_call: bool | None = None if make_parser else False
        self._waiting: list[TextDelta] = []

    @property
    def plain(self) -> bool:
        """Whether events pass as they are from here on, until the turn's end."""
        return self._like_call is False and self._held is None

    def _text(self, event: TextDelta) -> list[ModelEvent]:
        if self._like_call is False:
            return [event]
        if self._like_call is True:
            return super()._text(event)
        self._waiting.append(event)
        text = "".join(waiting.text for waiting in self._waiting)
        self._like_call = begins_like_call(text)
        if self._like_call is None:
            return []
        waiting, self._waiting = self._waiting, []
        if not self._like_call or self._make_parser is None:
            return [*waiting]
        self._parser = self._make_parser()
        return super()._text(TextDelta(text))

    def _other(self, *events: ModelEvent) -> list[ModelEvent]:
        """Text that waits to be understood comes before what follows it."""
        waiting, self._waiting = self._waiting, []
        return [*waiting, *events]

    def _finished(self, truncated: bool) -> list[ModelEvent]:
        return [*self._other(), *super()._finished(truncated)]

    def _finish(self) -> FinishReason:
        return super()._finish() if self.text_calls else self.finish


class _Nothing:
    """The parser of a turn that is not parsed."""

    def feed(self, text: str) -> list[ModelEvent]:
        return [TextDelta(text)]

    def finish(self, *, truncated: bool = False) -> list[ModelEvent]:
        return []


_NOTHING = _Nothing()
