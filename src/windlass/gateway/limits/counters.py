"""What limits count: the requests of a minute, and the places that runs hold."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

__all__ = ["Bucket", "LocalTally", "Tally"]

A_MINUTE = 60.0


class Tally(Protocol):
    """Counts by names, of which each is one thing that has a limit."""

    async def spend(self, name: str, per_minute: int) -> float:
        """Counts a request, and returns 0; or none, and the seconds until there may be one."""
        ...

    async def take(self, name: str, most: int) -> bool:
        """Takes a place, if fewer than `most` are taken."""
        ...

    def hold(self, name: str) -> None:
        """Takes a place, also where none is left."""
        ...

    def give_back(self, name: str) -> None:
        """Ends what `take` or `hold` began."""
        ...

    async def aclose(self) -> None: ...


class Bucket(Struct, frozen=True):
    """What is left of so many requests a minute, at one moment. Pure."""

    left: float
    at: float

    def less(self, many: int, per_minute: int, now: float) -> "tuple[Bucket, int, float]":
        """With so many less, as far as it has them; how many; and the seconds until the next."""
        # Clocks of a fleet do not agree: time never runs back, and none is ahead by a minute.
        since = now if self.at > now + A_MINUTE else self.at
        left = min(float(per_minute), self.left + max(0.0, now - since) * per_minute / A_MINUTE)
        then = max(now, since)
        taken = min(many, int(left))
        left -= taken
        return Bucket(left, then), taken, max(0.0, 1 - left) * A_MINUTE / per_minute


class LocalTally:
    """Counts what this process does."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self.places: Counter[str] = Counter()
        """How many are taken; of names without any there is nothing here."""

    async def spend(self, name: str, per_minute: int) -> float:
        now = self._clock()
        bucket = self._buckets.get(name) or Bucket(per_minute, now)
        self._buckets[name], taken, seconds = bucket.less(1, per_minute, now)
        return 0.0 if taken else seconds

    async def take(self, name: str, most: int) -> bool:
        if self.places[name] >= most:
            return False
        self.hold(name)
        return True

    def hold(self, name: str) -> None:
        self.places[name] += 1

    def give_back(self, name: str) -> None:
        self.places[name] -= 1
        if not self.places[name]:
            del self.places[name]

    async def aclose(self) -> None:
        pass
