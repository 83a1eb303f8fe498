"""call"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, cast

from windlass.content import FunctionDeclaration, Schema
from windlass.emulation.parser.output import Output
from windlass.emulation.parser.pattern import Pattern
from windlass.emulation.parser.source import Source, Step

Trust = Literal["any", "marked", "declared"]
"""Which names a marker makes callable.

any: its tokens are nobody's prose; whoever writes them calls, and hears that the name is unknown.
marked: plain text that is clearly a call; any name as long as no functions are declared.
declared: text that could be anything; only a declared name makes it a call.
"""

INPUT = "__input"
"""The name of an argument that a model gives without a name, and the function does not tell."""

_PREFIXES = ("functions.", "default_api.", "default_api:", "tools.", "tool.")
_NUMBER = re.compile(r":\d+$")
_CALLABLE = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")

_PLACEHOLDER = re.compile(
    r"(?:(?:example|my|your|some|the)_)?(?:function|func|tool)(?:_?name)?", re.IGNORECASE
)
"""What documentation writes where a name would stand."""


class Declared:
    def __init__(self, functions: Iterable[FunctionDeclaration] | None) -> None:
        self._parameters = {function.name: function.parameters for function in functions or ()}

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __bool__(self) -> bool:
        return bool(self._parameters)

    def meant(self, written: str, trust: Trust) -> str | None:
        """The function that the written name stands for, if it may be called."""
        written = written.strip()
        for name in (written, *_shorter(written)):
            if name in self._parameters:
                return name
        if trust != "declared" and (whole := self._whole(written)):
            return whole
        if trust == "declared" or (trust == "marked" and self._parameters):
            return None
        name = min(_shorter(written), key=len, default=written)
        return name if _CALLABLE.fullmatch(name) and not _PLACEHOLDER.fullmatch(name) else None

    def _whole(self, written: str) -> str | None:
        """The one declared name that was cut short, or left out for a number."""
        if written.isdecimal():
            return self._sorted[0] if len(self._sorted) == 1 else None
        start = written.removesuffix("...").removesuffix("…")
        place = bisect_left(self._sorted, start)
        fitting = [name for name in self._sorted[place : place + 2] if name.startswith(start)]
        if len(fitting) == 1 and len(start) * 3 >= len(fitting[0]) * 2:
            return fitting[0]
        return None

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self._parameters)

    # What a function takes.

    def schema(self, name: str) -> Schema:
        return self._parameters.get(name) or {}

    def properties(self, name: str) -> Mapping[str, Any]:
        properties = self.schema(name).get("properties")
        return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}

    def only_parameter(self, name: str) -> str:
        """The parameter that an input without a name goes to."""
        properties = self.properties(name)
        return next(iter(properties)) if len(properties) == 1 else INPUT


def _shorter(written: str) -> Iterable[str]:
    """The name without what a format or a proxy puts around it."""
    bare = _NUMBER.sub("", written).strip("*`").removesuffix(".call")
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    if bare != written:
        yield bare
    space, dot, name = bare.rpartition(".")
    if dot and name == space:
        yield name


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
