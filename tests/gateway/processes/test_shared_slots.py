"""The limits that several processes share, over a network without the processes."""

import asyncio
import random
import socket
from collections import Counter, deque
from contextlib import closing
from typing import Any

from tests.support.thoroughness import examples

from windlass.gateway.processes.member import Assignment, Member
from windlass.gateway.processes.messages import (
    Acquire,
    Force,
    FromProcess,
    FromSupervisor,
    Spend,
    encode,
)
from windlass.gateway.processes.slots import SharedLimits

NAME = "gateway"


class Network:
    """Supervisor and processes, with messages that arrive in any order between processes."""

    def __init__(self, limit: int, max_waiting: int, seed: int) -> None:
        self.limit, self.max_waiting = limit, max_waiting
        self.chance = random.Random(seed)
        self.limits = SharedLimits(self.send, lambda: 0.0)
        self.processes = {number: Process(number, self) for number in range(3)}
        self.to_processes: dict[int, deque[FromSupervisor]] = {n: deque() for n in self.processes}
        self.to_supervisor: dict[int, deque[Any]] = {n: deque() for n in self.processes}

    def send(self, process: int, message: FromSupervisor) -> None:
        self.to_processes[process].append(message)

    async def step(self) -> bool:
        """Delivers one message; False if there is none."""
        await asyncio.sleep(0)  # a turn that was decided is reported by the event loop
        queues = [(True, n) for n in self.processes if self.to_processes[n]]
        queues += [(False, n) for n in self.processes if self.to_supervisor[n]]
        if not queues:
            return False
        to_process, number = self.chance.choice(queues)
        if to_process:
            self.processes[number]._handle(encode(self.to_processes[number].popleft()))
            await asyncio.sleep(0)
        else:
            self.limits.handle(number, self.to_supervisor[number].popleft())
        return True

    @property
    def used(self) -> int:
        return sum(each.used for each in self.processes.values())

    def crash(self, number: int) -> None:
        self.processes[number].close()
        self.to_processes[number].clear()
        self.to_supervisor[number].clear()
        self.processes[number] = Process(number, self)
        self.limits.remove(number)

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


class Process(Member):
    """A process whose messages the network delivers."""

    def __init__(self, number: int, network: Network) -> None:
        listener, control = socket.socketpair()
        super().__init__(Assignment(number, listener.detach(), control.detach()))
        self.number, self.network = number, network
        self.turns: list[asyncio.Future[bool]] = []

    def _send(self, message: FromProcess) -> None:
        self.network.to_supervisor[self.number].append(message)

    def begin(self) -> None:
        self.turns.append(self.request(NAME, self.network.limit, self.network.max_waiting))

    def end(self) -> None:
        self.turns.remove(next(turn for turn in self.turns if _is_granted(turn)))
        self.release(NAME)

    @property
    def used(self) -> int:
        return sum(map(_is_granted, self.turns))

    @property
    def waiting(self) -> list[asyncio.Future[bool]]:
        return [turn for turn in self.turns if not turn.done()]

    @property
    def refused(self) -> int:
        done = [turn for turn in self.turns if turn.done() and not turn.cancelled()]
        return sum(not turn.result() for turn in done)

    def close(self) -> None:
        self.listener.close()
        self._control.close()


def _is_granted(turn: "asyncio.Future[bool]") -> bool:
    return turn.done() and not turn.cancelled() and turn.result()


async def test_processes_never_hold_more_slots_than_the_limit_and_no_request_is_forgotten() -> None:
    for seed in range(examples(60)):
        with closing(Network(limit=3, max_waiting=2, seed=seed)) as network:
            for _ in range(150):
                process = network.chance.choice(list(network.processes.values()))
                match network.chance.randrange(8):
                    case 0 | 1 | 2:
                        process.begin()
                    case 3 | 4:
                        if process.used:
                            process.end()
                    case 5 if process.waiting:
                        process.waiting[-1].cancel()
                    case 6 if seed % 4 == 0 and network.chance.random() < 0.1:
                        network.crash(process.number)
                    case _:
                        await network.step()
                assert network.used <= 3, seed
            while network.used or await network.step():
                for process in network.processes.values():
                    for _ in range(process.used):
                        process.end()
                while await network.step():
                    assert network.used <= 3, seed
            waiting = {process.number: process.waiting for process in network.processes.values()}
            assert not any(waiting.values()), (seed, waiting)


async def test_an_idle_slot_of_another_process_is_recalled_before_a_request_is_refused() -> None:
    with closing(Network(limit=2, max_waiting=0, seed=1)) as network:
        first, second, _ = network.processes.values()
        first.begin()
        first.begin()
        while await network.step():
            pass
        first.end()
        first.end()
        assert (first.used, list(network.to_supervisor[first.number])) == (
            0,
            [],
        )  # it keeps its slots
        second.begin()
        second.begin()
        second.begin()
        while await network.step():
            pass
        assert (second.used, second.refused) == (2, 1)


def test_slots_of_an_exited_process_are_free_and_forced_ones_count() -> None:
    sent: Counter[float] = Counter()
    limits = SharedLimits(
        lambda _, message: sent.update([getattr(message, "value", -1)]), lambda: 0
    )
    limits.handle(1, Force(NAME))
    limits.handle(1, Force(NAME))
    limits.handle(2, Acquire(1, NAME, 2, 5))
    assert sent[1] == 0
    limits.remove(1)
    assert sent[1] == 1


def test_a_rate_is_counted_over_all_processes() -> None:
    answers: list[float] = []
    limits = SharedLimits(
        lambda _, message: answers.append(getattr(message, "value", -1)), lambda: 0
    )
    for number in range(6):
        limits.handle(number % 3, Spend(number, "key web", 4))
    assert [bool(seconds) for seconds in answers] == [False] * 4 + [True] * 2
