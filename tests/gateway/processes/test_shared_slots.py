"""The limits that several processes share, without the processes."""

import random
from collections import Counter, deque
from typing import TypeAlias

from windlass.gateway.processes.messages import (
    Acquire,
    Answer,
    Force,
    FromSupervisor,
    Recall,
    Relax,
    Return,
    Spend,
    Withdraw,
)
from windlass.gateway.processes.slots import SharedLimits

NAME = "gateway"
Sent: TypeAlias = Spend | Acquire | Withdraw | Force | Return


class Network:
    """Supervisor and processes, with messages that arrive in any order between processes."""

    def __init__(self, limit: int, max_waiting: int, seed: int) -> None:
        self.limit, self.max_waiting = limit, max_waiting
        self.chance = random.Random(seed)
        self.limits = SharedLimits(self.send, lambda: 0.0)
        self.processes = {number: Process(number, self) for number in range(3)}
        self.to_processes: dict[int, deque[FromSupervisor]] = {n: deque() for n in self.processes}
        self.to_supervisor: dict[int, deque[Sent]] = {n: deque() for n in self.processes}

    def send(self, process: int, message: FromSupervisor) -> None:
        self.to_processes[process].append(message)

    def step(self) -> bool:
        """Delivers one message; False if there is none."""
        queues = [(True, n) for n in self.processes if self.to_processes[n]]
        queues += [(False, n) for n in self.processes if self.to_supervisor[n]]
        if not queues:
            return False
        to_process, number = self.chance.choice(queues)
        if to_process:
            self.processes[number].handle(self.to_processes[number].popleft())
        else:
            self.limits.handle(number, self.to_supervisor[number].popleft())
        return True

    @property
    def used(self) -> int:
        return sum(each.used for each in self.processes.values())

    def crash(self, number: int) -> None:
        self.to_processes[number].clear()
        self.to_supervisor[number].clear()
        self.processes[number] = Process(number, self)
        self.limits.remove(number)


class Process:
    """The rules of `Member`, with counters in place of futures."""

    def __init__(self, number: int, network: Network) -> None:
        self.number, self.network = number, network
        self.used = self.unused = self.asked = self.waiting = self.refused = 0
        self.recalled = False
        self.withdrawn: set[int] = set()

    def say(self, message: Sent) -> None:
        self.network.to_supervisor[self.number].append(message)

    def begin(self) -> None:
        if self.unused:
            self.unused -= 1
            self.used += 1
            return
        self.asked += 1
        self.waiting += 1
        self.say(Acquire(self.asked, NAME, self.network.limit, self.network.max_waiting))

    def withdraw(self) -> None:
        self.withdrawn.add(self.asked)
        self.say(Withdraw(self.asked, NAME))

    def end(self) -> None:
        self.used -= 1
        if self.recalled:
            self.say(Return(NAME, 1))
        else:
            self.unused += 1

    def handle(self, message: FromSupervisor) -> None:
        match message:
            case Answer(id=number, value=value):
                self.waiting -= 1
                if value and number in self.withdrawn:
                    self.used += 1
                    self.end()
                elif value:
                    self.used += 1
                else:
                    self.refused += 1
            case Recall():
                self.recalled = True
                self.say(Return(NAME, self.unused, recalled=True))
                self.unused = 0
            case Relax():
                self.recalled = False
            case _:
                raise AssertionError(message)


def test_processes_never_hold_more_slots_than_the_limit_and_no_request_is_forgotten() -> None:
    for seed in range(200):
        network = Network(limit=3, max_waiting=2, seed=seed)
        for _ in range(150):
            process = network.chance.choice(list(network.processes.values()))
            match network.chance.randrange(8):
                case 0 | 1 | 2:
                    process.begin()
                case 3 | 4:
                    if process.used:
                        process.end()
                case 5 if process.waiting and process.asked not in process.withdrawn:
                    process.withdraw()
                case 6 if seed % 4 == 0 and network.chance.random() < 0.1:
                    network.crash(process.number)
                case _:
                    network.step()
            assert network.used <= 3, seed
        while network.used or network.step():
            for process in network.processes.values():
                for _ in range(process.used):
                    process.end()
            while network.step():
                assert network.used <= 3, seed
        waiting = {process.number: process.waiting for process in network.processes.values()}
        assert not any(waiting.values()), (seed, waiting)


def test_a_slot_that_one_process_keeps_is_recalled_before_another_is_refused() -> None:
    network = Network(limit=2, max_waiting=0, seed=1)
    first, second, _ = network.processes.values()
    first.begin()
    first.begin()
    while network.step():
        pass
    first.end()
    first.end()
    assert (first.unused, first.used) == (2, 0)
    second.begin()
    second.begin()
    second.begin()
    while network.step():
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
