"""What a reader of calls works with: the text, the declared functions, and the call it reads."""

from collections.abc import Callable

from windlass.emulation.parser.declared import Declared, Trust
from windlass.emulation.parser.output import Output
from windlass.emulation.parser.pattern import Pattern
from windlass.emulation.parser.source import Source, Step

__all__ = ["NotACall", "Reading"]


class NotACall(Exception):
    """What has been read so far only looked like a call."""


class Reading:
    """From a marker on: nothing is said until a name is found that may be called."""

    def __init__(
        self,
        source: Source,
        declared: Declared,
        output: Output,
        trust: Trust,
        ends: Pattern | None,
        give_back: Callable[[str], None],
    ) -> None:
        self.source, self.declared, self.ends = source, declared, ends
        self.trust: Trust = trust
        self._output, self._give, self.write = output, give_back, output.write
        self.name = ""
        self.calls = 0
        self.open = False
        self.hopeless = False
        """What is being read is read to its end, and is text."""

    @property
    def implicit(self) -> bool:
        return self.trust == "declared"

    @property
    def opens_line(self) -> bool:
        """Whether only space is before the marker on its line."""
        return self._output.line.is_blank

    def meant(self, written: str) -> str:
        """The function that the name stands for. Raises `NotACall` if it may not be called."""
        if (name := self.declared.meant(written, self.trust)) is None:
            raise NotACall
        return name

    def start(self, name: str) -> None:
        self.source.forget()
        self._output.start_call(name)
        self.name, self.open = name, True

    def spoil(self) -> None:
        """The arguments cannot be read, or not all of them have come."""
        self._output.spoil()

    def end(self) -> None:
        self._output.end_call()
        self.calls += 1
        self.open = False

    def say(self, name: str, json: str) -> None:
        """A call whose arguments are all there."""
        self.start(name)
        self.write(json)
        self.end()

    def skip(self) -> Step[None]:
        """Passes over what is left of a call that cannot be read, if its end is marked."""
        if self.ends and not self.implicit:
            yield from self.source.until(self.ends)

    def give_up(self) -> None:
        """What was held back since the last call is text after all."""
        self._give(self.source.release())
        self.hopeless = False

    def give_back(self) -> None:
        """What has been read so far is text, and so is what comes until somebody gives up."""
        self._give(self.source.release())
        self.source.keep()
