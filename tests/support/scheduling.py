"""Which worker runs which file of tests: the order in which `make test` starts the files.

Tests with other processes often wait for them, and tests in this process only compute. If each
kind ran at its own time, the cores would be idle at first and overloaded later. So all workers but
one start with the files that use processes, and one starts at the other end of the list. The last
files of a run are therefore short ones, and few workers start browsers and NATS servers.
"""

import pytest
from tests.support.needs import MARKS
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ALONE = 3
"""With fewer workers than this, all of them start with the files that use processes."""


def order_files(items: list[pytest.Item]) -> None:
    """Puts the files with a marked test before the others, and keeps the order otherwise."""
    needy = {item.path for item in items if any(map(item.get_closest_marker, MARKS))}
    items.sort(key=lambda item: item.path not in needy)


class FromBothEnds(LoadFileScheduling):
    """Assigns whole files: the first worker takes them from the end of the list."""

    # Private in xdist, which has no public way to choose the next file of a worker.
    def _assign_work_unit(self, node: WorkerController) -> None:
        assigned = self.assigned_work[node]
        # The base class counts the tests of all assigned files after every test.
        for scope in [scope for scope, unit in assigned.items() if all(unit.values())]:
            del assigned[scope]
        scope, unit = self.workqueue.popitem(last=self._starts_at_the_end(node))
        assigned[scope] = unit
        left = [test for test, is_done in unit.items() if not is_done]
        node.send_runtest_some([self._places[test] for test in left])

    def _starts_at_the_end(self, node: WorkerController) -> bool:
        return self.numnodes >= ALONE and node.gateway.id == "gw0"

    def schedule(self) -> None:
        # Every worker has the same list: the base class searches it for every test.
        collected = next(iter(self.registered_collections.values()))
        self._places = {test: place for place, test in enumerate(collected)}
        super().schedule()
