"""The functions that a model was told of: which name it means, and what a parameter takes."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, cast

from windlass.content import FunctionDeclaration, Schema

__all__ = ["INPUT", "Declared", "Trust"]

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
