"""Decides which worker runs which test file, and in which order.

Tests with other processes often wait for them, and tests in this process only compute. If each
kind ran at its own time, the cores would be idle at first and overloaded later. So all workers but
one start with the files that use processes, and one starts at the other end of the list. The last
files of a run are therefore short ones, and few workers start NATS servers. The files that share a
browser go to one worker, and to others only when nothing else is left.
"""

from itertools import groupby

import pytest
from tests.support.needs import MARKS

BROWSERS = ("browser", "chromium")
"""The fixtures of browsers, in the order of the workers that start with them."""
ALONE = 3
"""With fewer workers than this, all of them start with the files that use processes."""


def order_files(items: list[pytest.Item]) -> None:
    """Puts the files with a marked test before the others, and keeps the order otherwise."""
    needy = {item.path for item in items if any(map(item.get_closest_marker, MARKS))}
    items.sort(key=lambda item: item.path not in needy)


class Files:
    """The files that are not assigned, each as the positions of its tests in the list."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.workers = 1
        self._items = items
        by_path = groupby(range(len(items)), key=lambda place: items[place].path)
        self._left = [list(places) for _, places in by_path]
        self._browsers = {places[0]: self._browser_of(places) for places in self._left}

    def next(self, worker: int) -> list[int] | None:
        """Returns the next file for a worker."""
        if not self._left:
            return None
        if worker == 0 and self.workers >= ALONE:
            return self._left.pop()
        wanted = [BROWSERS[worker - 1] if 0 < worker <= len(BROWSERS) else None, None]
        for browser in wanted:
            for at, places in enumerate(self._left):
                if self._browsers[places[0]] == browser:
                    return self._left.pop(at)
        return self._left.pop(0)

    def put_back(self, tests: list[int]) -> None:
        """Adds the tests of a file whose worker has exited."""
        if tests:
            self._left.insert(0, tests)
            self._browsers[tests[0]] = None

    def _browser_of(self, places: list[int]) -> str | None:
        fixtures = {name for at in places for name in getattr(self._items[at], "fixturenames", ())}
        if any(self._items[at].nodeid.endswith("[page]") for at in places):
            return "chromium"
        return next((browser for browser in BROWSERS if browser in fixtures), None)
