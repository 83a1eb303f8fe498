"""Which worker runs which file of tests: the order in which `make test` starts the files.

Tests with other processes often wait for them, and tests in this process only compute. If each
kind ran at its own time, the cores would be idle at first and overloaded later. So all workers but
one start with the files that use processes, and one starts at the other end of the list. The last
files of a run are therefore short ones, and few workers start browsers and NATS servers.
"""

from collections import deque
from itertools import groupby

import pytest
from tests.support.needs import MARKS

ALONE = 3
"""With fewer workers than this, all of them start with the files that use processes."""


def order_files(items: list[pytest.Item]) -> None:
    """Puts the files with a marked test before the others, and keeps the order otherwise."""
    needy = {item.path for item in items if any(map(item.get_closest_marker, MARKS))}
    items.sort(key=lambda item: item.path not in needy)


class Files:
    """The files that no worker has been given, each as the places of its tests in the list."""

    def __init__(self, items: list[pytest.Item]) -> None:
        self.workers = 1
        by_path = groupby(range(len(items)), key=lambda place: items[place].path)
        self._left = deque(list(places) for _, places in by_path)

    def next(self, worker: int) -> list[int] | None:
        """The next file for a worker: the first worker takes it from the end of the list."""
        if not self._left:
            return None
        from_the_end = worker == 0 and self.workers >= ALONE
        return self._left.pop() if from_the_end else self._left.popleft()

    def put_back(self, tests: list[int]) -> None:
        if tests:
            self._left.appendleft(tests)
