"""The limits that the processes of a gateway share, counted in the supervisor. Pure.

A process keeps a slot after its release, and uses it for its next run without a request. When
another process needs a slot, the supervisor recalls all unused slots, and then every released slot,
until half of them are free again. So the limit is exact, and requests are rare.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator

from windlass.gateway.limits.admission import TokenBucket
from windlass.gateway.processes.messages import (
    Acquire,
    Force,
    FromSupervisor,
    LimitMessage,
    Recall,
    Relax,
    RequestAnswer,
    Return,
    Spend,
    Withdraw,
)


class _SlotPool:
    """The slots of one name."""

    def __init__(self) -> None:
        self.limit = 0
        self.held: Counter[int] = Counter()
        """The slots of each process, whether it uses them or not."""
        self.waiting: deque[tuple[int, Acquire]] = deque()
        self.recalled: set[int] = set()
        """The processes that return released slots at once."""
        self.asked: set[int] = set()
        """The processes that have not answered the recall yet."""

    @property
    def free(self) -> int:
        return self.limit - self.held.total()


class SharedLimits:
    """Answers the requests of processes. Each process has a number."""

    def __init__(
        self, send: Callable[[int, FromSupervisor], None], clock: Callable[[], float]
    ) -> None:
        self._send, self._clock = send, clock
        self._pools: dict[str, _SlotPool] = {}
        self._buckets: dict[str, TokenBucket] = {}

    def handle(self, process: int, message: LimitMessage) -> None:
        match message:
            case Spend():
                self._send(process, RequestAnswer(message.id, self._spend(message)))
                return
            case Acquire():
                pool = self._pools.setdefault(message.name, _SlotPool())
                pool.limit = message.limit
                pool.waiting.append((process, message))
            case Withdraw():
                pool = self._pools.setdefault(message.name, _SlotPool())
                self._withdraw(pool, process, message.id)
            case Force():
                pool = self._pools.setdefault(message.name, _SlotPool())
                pool.held[process] += 1
            case Return():
                pool = self._pools.setdefault(message.name, _SlotPool())
                pool.held[process] -= message.count
                if message.recalled:
                    pool.asked.discard(process)
        self._settle(message.name, pool)

    def remove(self, process: int) -> None:
        """The process has exited: its slots are free."""
        for name, pool in list(self._pools.items()):
            del pool.held[process]
            pool.recalled.discard(process)
            pool.asked.discard(process)
            pool.waiting = deque(each for each in pool.waiting if each[0] != process)
            self._settle(name, pool)

    def _withdraw(self, pool: _SlotPool, process: int, number: int) -> None:
        """Refuses a withdrawn request, unless it was granted: every request gets one answer."""
        for each in pool.waiting:
            if (each[0], each[1].id) == (process, number):
                pool.waiting.remove(each)
                self._send(process, RequestAnswer(number, 0))
                return

    def _spend(self, message: Spend) -> float:
        now = self._clock()
        bucket = self._buckets.get(message.name) or TokenBucket(message.per_minute, now)
        self._buckets[message.name], spent, seconds = bucket.spend(1, message.per_minute, now)
        return 0.0 if spent else seconds

    def _settle(self, name: str, pool: _SlotPool) -> None:
        """Grants free slots, recalls unused ones, and refuses requests that may not wait."""
        while pool.waiting and pool.free > 0:
            process, request = pool.waiting.popleft()
            pool.held[process] += 1
            self._send(process, RequestAnswer(request.id, 1))
        if pool.waiting:
            self._recall(name, pool)
            if not pool.asked:
                self._refuse(pool)
        elif pool.recalled and pool.held.total() <= pool.limit // 2:
            for process in pool.recalled:
                self._send(process, Relax(name))
            pool.recalled.clear()

    def _recall(self, name: str, pool: _SlotPool) -> None:
        holders = {process for process, count in pool.held.items() if count > 0}
        for process in holders - pool.recalled:
            pool.recalled.add(process)
            pool.asked.add(process)
            self._send(process, Recall(name))

    def _refuse(self, pool: _SlotPool) -> None:
        kept: deque[tuple[int, Acquire]] = deque()
        for process, request in pool.waiting:
            if len(kept) < request.max_waiting:
                kept.append((process, request))
            else:
                self._send(process, RequestAnswer(request.id, 0))
        pool.waiting = kept

    def held(self) -> Iterator[tuple[str, int]]:
        """The slots that are taken, by name."""
        for name, pool in self._pools.items():
            yield name, pool.held.total()
