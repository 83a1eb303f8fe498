"""Helpers of the request encoders: a cache, and the size of a request. Pure."""

from collections.abc import Callable
from typing import Generic, TypeVar

from windlass.content import FunctionDeclaration, size_of_part
from windlass.jsontext import LARGE, is_larger
from windlass.model import ModelRequest

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """Caches by identity: comparing a tool list costs as much as encoding it."""

    def __init__(self, make: Callable[[K], V], size: int = 64) -> None:
        self._make, self._size = make, size
        self._made: dict[int, tuple[K, V]] = {}

    def get(self, key: K) -> V:
        known = self._made.get(id(key))
        if known is not None:
            return known[1]
        if len(self._made) >= self._size:
            self._made.clear()
        # Keep the key: an id is unique only while its object exists.
        value = self._make(key)
        self._made[id(key)] = (key, value)
        return value


PART_OVERHEAD = 64
"""The size of a part without its text."""
CONVERSION_FACTOR = 8
"""Converting a schema takes this many times longer than encoding it."""


def request_size(request: ModelRequest) -> int:
    """The approximate size in characters. A result above `LARGE` means only "large"."""
    size = 0
    for message in request.messages:
        for part in message.parts:
            size += PART_OVERHEAD + size_of_part(part)
        if size > LARGE:
            return size
    schemas = [tool.parameters for tool in request.tools if isinstance(tool, FunctionDeclaration)]
    if is_larger((schemas, request.extra), LARGE // CONVERSION_FACTOR):
        return LARGE + 1
    return size
