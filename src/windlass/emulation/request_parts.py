"""The parts of a request that asks for several things, by its words. Pure."""

import re

_PARTS = re.compile(r"(?<=[.?!;])\s+|,?\s+(?:and|then|and then|also|plus)\s+", re.IGNORECASE)
_IN_SEQUENCE = re.compile(
    r"\bthen\b|\b(the|this|that|its) (result|answer|sum|product|value|number|total)s?\b"
    r"|\b(add|change|convert|divide|double|express|halve|multiply|reduce|round|subtract|turn)"
    r" (it|that|this)\b|\b(by|from|of|to) (it|that|this)\b|\bwhat('s| is) that\b"
    r"|\bthat (many|much)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|\d|\b(add|calculate|change|compute|convert|count|divide|double|express|find|get|give|halve"
    r"|how|increase|look|multiply|put|reduce|round|save|send|set|show|square|subtract|sum|tell|triple"
    r"|turn|what|when|where|which|who|write)\b",
    re.IGNORECASE,
)
_MIN_WORDS = 2
_MAX_PARTS = 3


def parts_of(request: str) -> list[str]:
    """The parts of a request that asks for several things; none if it asks for one."""
    parts = [part for part in _PARTS.split(request) if len(part.split()) >= _MIN_WORDS]
    return parts[:_MAX_PARTS] if len(parts) > 1 else []


def asking_parts(request: str) -> list[str]:
    """The parts that ask for something, rather than tell something."""
    return [part for part in parts_of(request) if _ASKS.search(part)]


def is_in_sequence(request: str) -> bool:
    """Whether the second step of the request needs the result of the first."""
    return _IN_SEQUENCE.search(request) is not None
