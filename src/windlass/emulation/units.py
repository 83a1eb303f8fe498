"""The units that a request asks for, such as "in metres per second". Pure."""

import re
from collections.abc import Iterator

from windlass.content import FunctionCall

_WANTED = re.compile(r"\bin (?:degrees )?([a-z]+(?:/[a-z]+| (?:per|an) [a-z]+)?)\b", re.IGNORECASE)
_SHORT = re.compile(r"(?<![a-z])[a-z]{1,2}/?[a-z]?(?![a-z/])")


def wanted_units(request: str) -> Iterator[str]:
    """What the request may want a number in. It may be no unit: "in total"."""
    return (found[1].lower() for found in _WANTED.finditer(request))


def is_in_unit(call: FunctionCall, unit: str) -> bool:
    """Whether an argument of the call is the unit."""
    given = call.arguments
    values = () if isinstance(given, str) else given.values()
    return any(isinstance(each, str) and names_unit(each.lower(), unit) for each in values)


def names_unit(text: str, unit: str) -> bool:
    """Whether the text has the unit or a short form, such as `m/s` for "metres per second"."""
    return unit.removesuffix("s") in text or any(
        _is_short_for(each, unit) for each in _SHORT.findall(text)
    )


def _is_short_for(short: str, unit: str) -> bool:
    """Whether both begin with the same letter, and the unit has all letters in their order."""
    letters = iter(unit)
    return short[0] == unit[0] and all(each in letters for each in short if each.isalpha())
