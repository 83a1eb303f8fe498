"""A small memory for work on values that come again as the very same objects."""

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["IdentityCache"]

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
