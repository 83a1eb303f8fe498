"""What the writers of requests share: what is encoded once, and how large a request is. Pure."""

from collections.abc import Callable
from typing import Generic, TypeVar

from windlass.content import FunctionDeclaration, size_of_part
from windlass.jsontext import LARGE, is_larger
from windlass.model import ModelRequest

K = TypeVar("K")
V = TypeVar("V")


class IdentityCache(Generic[K, V]):
    """Remembers by identity, because equality of a tool list costs as much as encoding it."""

    def __init__(self, make: Callable[[K], V], size: int = 64) -> None:
        self._make, self._size = make, size
        self._made: dict[int, tuple[K, V]] = {}

    def get(self, key: K) -> V:
        known = self._made.get(id(key))
        if known is not None:
            return known[1]
        if len(self._made) >= self._size:
            self._made.clear()
        # The key is kept too: an id is only its object's while the object lives.
        value = self._make(key)
        self._made[id(key)] = (key, value)
        return value


_PART = 64
"""What a part takes beside its text."""
_FORMATTING = 8
"""How much longer it takes to convert a schema than to encode it."""


def request_size(request: ModelRequest) -> int:
    """Characters, about; more than `LARGE` says only that it is large."""
    size = 0
    for message in request.messages:
        for part in message.parts:
            size += _PART + size_of_part(part)
        if size > LARGE:
            return size
    schemas = [tool.parameters for tool in request.tools if isinstance(tool, FunctionDeclaration)]
    if is_larger((schemas, request.extra), LARGE // _FORMATTING):
        return LARGE + 1
    return size
