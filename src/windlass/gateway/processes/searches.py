"""Searches for runs that a process has only in memory, passed on by the supervisor. Pure."""

import itertools
from collections.abc import Callable, Iterable

from msgspec import Struct

from windlass.gateway.processes.messages import Find, FromSupervisor, RequestAnswer, Store


class _Search(Struct):
    """A question of one process, and the processes that have not answered it."""

    asker: int
    question: int
    asked: set[int]


class Searches:
    """Passes each question to the other processes, and answers it when all of them have."""

    def __init__(self, send: Callable[[int, FromSupervisor], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, _Search] = {}

    def begin(self, asker: int, message: Find, others: Iterable[int]) -> None:
        number = next(self._numbers)
        search = self._open[number] = _Search(asker, message.id, set(others) - {asker})
        for process in search.asked:
            self._send(process, Store(number, message.run_id))
        self._settle(number, search)

    def stored(self, process: int, number: int) -> None:
        """The process has stored what it had of this search."""
        if (search := self._open.get(number)) is not None:
            search.asked.discard(process)
            self._settle(number, search)

    def remove(self, process: int) -> None:
        """The process has exited, and answers no more."""
        for number, search in list(self._open.items()):
            search.asked.discard(process)
            self._settle(number, search)

    def _settle(self, number: int, search: _Search) -> None:
        if not search.asked:
            del self._open[number]
            self._send(search.asker, RequestAnswer(search.question, 1))
