"""Searches for runs: passed to the other processes, and answered when all of them have."""

from windlass.gateway.processes.messages import Find, FromSupervisor, RequestAnswer, Store
from windlass.gateway.processes.supervisor import Searches


class Sent:
    """The messages of the supervisor, with the numbers of the processes that get them."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, FromSupervisor]] = []
        self.searches = Searches(lambda process, message: self._messages.append((process, message)))

    def taken(self) -> list[tuple[int, FromSupervisor]]:
        messages, self._messages = self._messages, []
        return sorted(messages, key=lambda each: each[0])


def test_a_search_is_answered_when_every_other_process_has_stored_the_run() -> None:
    sent = Sent()
    sent.searches.begin(1, Find(7, "run_a"), [1, 2, 3])
    assert sent.taken() == [(2, Store(1, "run_a")), (3, Store(1, "run_a"))]
    sent.searches.stored(3, 1)
    assert sent.taken() == []
    sent.searches.stored(2, 1)
    assert sent.taken() == [(1, RequestAnswer(7, 1))]
    sent.searches.stored(2, 1)
    assert sent.taken() == []


def test_a_process_without_siblings_is_answered_at_once() -> None:
    sent = Sent()
    sent.searches.begin(1, Find(7, ""), [1])
    assert sent.taken() == [(1, RequestAnswer(7, 1))]


def test_a_search_does_not_wait_for_an_exited_process() -> None:
    sent = Sent()
    sent.searches.begin(1, Find(7, "run_a"), [1, 2, 3])
    sent.searches.begin(3, Find(4, "run_b"), [1, 2, 3])
    sent.taken()
    sent.searches.stored(1, 2)
    sent.searches.remove(2)
    assert sent.taken() == [(3, RequestAnswer(4, 1))]
    sent.searches.stored(3, 1)
    assert sent.taken() == [(1, RequestAnswer(7, 1))]
