"""The state of a call that is being read, and the functions that may be called.

`Declared` resolves the names that a model writes. `CallReading` is what the readers of arguments
work with: the text, the declared functions, and the output of the call.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, cast

from windlass.content import FunctionDeclaration, Schema
from windlass.emulation.parser.output import ParserOutput
from windlass.emulation.parser.pattern import Pattern
from windlass.emulation.parser.source import Source, Step

Trust = Literal["any", "marked", "declared"]
"""Which names may be called after a marker.

any: special tokens that never occur in prose. Any name is a call, also an unknown one.
marked: plain text that is clearly a call. Any name is a call if no functions are declared.
declared: text that may be anything. Only a declared name is a call.
"""

INPUT = "__input"
"""The name of an argument without a name, if the function does not have exactly one parameter."""

_PREFIXES = ("functions.", "default_api.", "default_api:", "tools.", "tool.")
_NUMBER = re.compile(r":\d+$")
_CALLABLE = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")

_PLACEHOLDER = re.compile(
    r"(?:(?:example|my|your|some|the)_)?(?:function|func|tool)(?:_?name)?", re.IGNORECASE
)
"""Placeholder names in documentation."""


class Declared:
    """The functions that the model may call."""

    def __init__(self, functions: Iterable[FunctionDeclaration] | None) -> None:
        self._parameters = {function.name: function.parameters for function in functions or ()}

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __bool__(self) -> bool:
        return bool(self._parameters)

    def resolve(self, written: str, trust: Trust) -> str | None:
        """Returns the name of the function that is written; None if it may not be called."""
        written = written.strip()
        for name in (written, *_shorter(written)):
            if name in self._parameters:
                return name
        if trust != "declared" and (completed := self._completed(written)):
            return completed
        if trust == "declared" or (trust == "marked" and self._parameters):
            return None
        name = min(_shorter(written), key=len, default=written)
        return name if _CALLABLE.fullmatch(name) and not _PLACEHOLDER.fullmatch(name) else None

    def _completed(self, written: str) -> str | None:
        """Returns the one declared name that the model shortened, or replaced by a number."""
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

    def schema(self, name: str) -> Schema:
        return self._parameters.get(name) or {}

    def properties(self, name: str) -> Mapping[str, Any]:
        properties = self.schema(name).get("properties")
        return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}

    def only_parameter(self, name: str) -> str:
        """Returns the parameter for an argument without a name."""
        properties = self.properties(name)
        return next(iter(properties)) if len(properties) == 1 else INPUT


def _shorter(written: str) -> Iterable[str]:
    """Yields the name without prefixes and suffixes that formats and proxies add."""
    bare = _NUMBER.sub("", written).strip("*`").removesuffix(".call")
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    if bare != written:
        yield bare
    space, dot, name = bare.rpartition(".")
    if dot and name == space:
        yield name


class NotACall(Exception):
    """The text only looked like a call."""


class CallReading:
    """Reads the calls after one marker. There is no output before a callable name is found."""

    def __init__(
        self,
        source: Source,
        declared: Declared,
        output: ParserOutput,
        trust: Trust,
        ends: Pattern | None,
        emit_text: Callable[[str], None],
    ) -> None:
        self.source, self.declared, self.ends = source, declared, ends
        self.trust: Trust = trust
        self._output, self._emit_text, self.write = output, emit_text, output.write
        self.name = ""
        self.calls = 0
        self.open = False
        self.is_text = False
        """Whether the current value is not a call; it is read to its end as text."""

    @property
    def implicit(self) -> bool:
        return self.trust == "declared"

    @property
    def opens_line(self) -> bool:
        """Whether the marker is the first text on its line."""
        return self._output.line.is_blank

    def resolve(self, written: str) -> str:
        """Returns the function of the written name. Raises `NotACall` if it may not be called."""
        if (name := self.declared.resolve(written, self.trust)) is None:
            raise NotACall
        return name

    def start(self, name: str) -> None:
        self.source.forget()
        self._output.start_call(name)
        self.name, self.open = name, True

    def invalidate(self) -> None:
        """Marks the arguments as unreadable or incomplete, so that the call cannot run."""
        self._output.invalidate()

    def end(self) -> None:
        self._output.end_call()
        self.calls += 1
        self.open = False

    def add(self, name: str, json: str) -> None:
        """Adds a call with complete arguments."""
        self.start(name)
        self.write(json)
        self.end()

    def skip(self) -> Step[None]:
        """Skips the rest of an unreadable call, if its end has a marker."""
        if self.ends and not self.implicit:
            yield from self.source.until(self.ends)

    def reject(self) -> None:
        """Emits the text since the last call: it is not a call."""
        self._emit_text(self.source.release())
        self.is_text = False

    def reject_so_far(self) -> None:
        """Emits the text so far; the following text is text too, until `reject`."""
        self._emit_text(self.source.release())
        self.source.keep()
