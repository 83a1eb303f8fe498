"""Admission of runs: rates, numbers and the queue, with a fake clock."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.thoroughness import examples

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import Refused, problem_headers
from windlass.gateway.limits.admission import Admission, LocalCounter, LocalPlaces, TokenBucket
from windlass.wires.errors import Problem

MODEL = ModelConfig(name="m", target="openai/m")


class Clock:
    """Changes only when a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def key(name: str = "web", **fields: Any) -> KeyConfig:
    return KeyConfig(name=name, hash="sha256:0", **fields)


async def test_a_rate_allows_its_number_at_once_and_then_one_at_a_time() -> None:
    clock = Clock()
    counter = LocalCounter(clock)
    assert [await counter.spend("x", 60) for _ in range(60)] == [0.0] * 60
    assert await counter.spend("x", 60) == pytest.approx(1.0)
    clock.now += 0.5
    assert await counter.spend("x", 60) == pytest.approx(0.5)
    clock.now += 0.5
    assert await counter.spend("x", 60) == 0.0
    assert await counter.spend("x", 60) > 0


async def test_a_rate_saves_up_at_most_one_minute() -> None:
    clock = Clock()
    counter = LocalCounter(clock)
    await counter.spend("x", 2)
    clock.now += 3600
    assert [await counter.spend("x", 2) == 0 for _ in range(3)] == [True, True, False]


async def test_a_request_before_its_time_does_not_extend_the_wait() -> None:
    clock = Clock()
    counter = LocalCounter(clock)
    await counter.spend("x", 1)
    assert {await counter.spend("x", 1) for _ in range(100)} == {60.0}
    clock.now += 60
    assert await counter.spend("x", 1) == 0.0


@given(
    per_minute=st.integers(1, 100),
    skews=st.lists(st.floats(-5, 5), min_size=1, max_size=4),
    steps=st.lists(st.tuples(st.integers(0, 3), st.floats(0, 20)), max_size=150),
)
def test_differing_clocks_never_increase_a_rate(
    per_minute: int, skews: list[float], steps: list[tuple[int, float]]
) -> None:
    bucket, now, allowed = TokenBucket(per_minute, 1000.0), 1000.0, 0
    for who, seconds in steps:
        now += seconds
        bucket, taken, _ = bucket.spend(2, per_minute, now + skews[who % len(skews)])
        allowed += taken
    most_elapsed = now - 1000.0 + max(0.0, *skews, 0.0)
    assert allowed <= per_minute + most_elapsed * per_minute / 60 + 1e-6


def test_a_clock_that_is_far_ahead_does_not_block_clients() -> None:
    bucket, taken, _ = TokenBucket(1.0, 5000.0).spend(1, 1, 5000.0)
    assert taken == 1
    bucket, taken, wait = bucket.spend(1, 1, 1000.0)
    assert (taken, wait) == (0, 60.0)
    assert bucket.spend(1, 1, 1060.0)[1] == 1


async def test_each_key_has_its_own_rate() -> None:
    refusals: list[str] = []
    admission = Admission(LimitsConfig(), refusals.append, LocalCounter(Clock()))
    await admission.count(key("web", requests_per_minute=1))
    await admission.count(key("app", requests_per_minute=1))
    await admission.count(key("free"))
    await admission.count(None)
    with pytest.raises(Refused) as refused:
        await admission.count(key("web", requests_per_minute=1))
    problem = refused.value.problem
    assert (problem.status, problem.code) == (429, "rate_limit_exceeded")
    assert problem_headers(problem) == [(b"retry-after", b"60")]
    assert refusals == ["rate_limit"]


class Queue:
    """An admission, and the runs that asked to enter, by number."""

    def __init__(self, **limits: Any) -> None:
        self.refusals: list[str] = []
        self.counter, self.places = LocalCounter(), LocalPlaces()
        self.admission = Admission(
            LimitsConfig(**limits), self.refusals.append, self.counter, self.places
        )
        self._numbers = itertools.count()
        self.asked: dict[int, asyncio.Task[Callable[[], None]]] = {}
        self.gone: dict[int, asyncio.Event] = {}

    async def ask(self, who: KeyConfig | None = None, model: ModelConfig = MODEL) -> int:
        number = next(self._numbers)
        gone = self.gone[number] = asyncio.Event()

        async def left() -> None:
            await gone.wait()

        self.asked[number] = asyncio.create_task(self.admission.enter(who, model, left))
        await settle()
        return number

    async def enter_resumed(self, who: KeyConfig | None = None, model: ModelConfig = MODEL) -> int:
        """A run that another process started."""
        number = next(self._numbers)

        async def held() -> Callable[[], None]:
            return self.admission.force_enter(who, model)

        self.gone[number], self.asked[number] = asyncio.Event(), asyncio.create_task(held())
        await settle()
        return number

    def is_in(self, number: int) -> bool:
        task = self.asked[number]
        return task.done() and not task.cancelled() and task.exception() is None

    def problem(self, number: int) -> Problem:
        error = self.asked[number].exception()
        assert isinstance(error, Refused)
        return error.problem

    async def end(self, number: int) -> None:
        self.asked[number].result()()
        await settle()


async def settle() -> None:
    """Runs all tasks that do not wait for the clock."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_queued_runs_start_in_order() -> None:
    queue = Queue(max_running=1)
    first, second, third = await queue.ask(), await queue.ask(), await queue.ask()
    assert [queue.is_in(each) for each in (first, second, third)] == [True, False, False]
    await queue.end(first)
    assert [queue.is_in(each) for each in (second, third)] == [True, False]
    late = await queue.ask()
    await queue.end(second)
    assert [queue.is_in(each) for each in (third, late)] == [True, False]
    await queue.end(third)
    assert queue.is_in(late)


async def test_a_full_queue_refuses_runs() -> None:
    queue = Queue(max_running=1, max_queued=1)
    await queue.ask()
    await queue.ask()
    refused = queue.problem(await queue.ask())
    assert (refused.status, refused.code) == (503, "overloaded")
    assert problem_headers(refused) == [(b"retry-after", b"1")]
    assert queue.refusals == ["queue_full"]


async def test_a_run_that_waits_too_long_is_refused_and_leaves_the_queue() -> None:
    queue = Queue(max_running=1, max_queued=1, queue_timeout=0)
    first = await queue.ask()
    waiting = await queue.ask()
    await asyncio.wait([queue.asked[waiting]])
    assert (queue.problem(waiting).status, queue.problem(waiting).code) == (503, "overloaded")
    assert queue.refusals == ["queue_timeout"]
    await queue.end(first)
    assert queue.is_in(await queue.ask())


async def test_a_client_that_disconnects_in_the_queue_gets_no_slot() -> None:
    queue = Queue(max_running=1, max_queued=1)
    first, second = await queue.ask(), await queue.ask()
    queue.gone[second].set()
    await settle()
    assert isinstance(queue.asked[second].exception(), ClientGone)
    third = await queue.ask()
    await queue.end(first)
    assert queue.is_in(third)
    assert queue.refusals == []


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_slot_freed_as_its_client_leaves_goes_to_the_next(
    leaves_first: bool,
) -> None:
    queue = Queue(max_running=1)
    first, second, third = await queue.ask(), await queue.ask(), await queue.ask()
    steps = [queue.gone[second].set, queue.asked[first].result()]
    for step in steps if leaves_first else reversed(steps):
        step()
    await settle()
    assert isinstance(queue.asked[second].exception(), ClientGone)
    assert queue.is_in(third)


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_slot_freed_as_its_request_is_cancelled_goes_to_the_next(
    cancelled_first: bool,
) -> None:
    queue = Queue(max_running=1)
    first, second, third = await queue.ask(), await queue.ask(), await queue.ask()
    steps: list[Callable[[], object]] = [queue.asked[second].cancel, queue.asked[first].result()]
    for step in steps if cancelled_first else reversed(steps):
        step()
    await settle()
    assert queue.asked[second].cancelled()
    assert queue.is_in(third)


async def test_a_key_is_limited_to_its_number_of_runs_including_queued_ones() -> None:
    queue = Queue(max_running=1)
    web, app = key("web", max_running=2), key("app", max_running=1)
    first = await queue.ask(web)
    await queue.ask(web)
    refused = queue.problem(await queue.ask(web))
    assert (refused.status, refused.code) == (429, "too_many_runs")
    assert problem_headers(refused) == [(b"retry-after", b"1")]
    assert not queue.asked[await queue.ask(app)].done()
    await queue.end(first)
    assert not queue.asked[await queue.ask(web)].done()
    assert queue.refusals == ["concurrency"]


async def test_a_model_is_limited_to_its_number_of_runs() -> None:
    queue = Queue()
    small = ModelConfig(name="small", target="openai/s", max_running=1)
    first = await queue.ask(None, small)
    assert queue.problem(await queue.ask(None, small)).code == "too_many_runs"
    assert queue.is_in(await queue.ask())
    await queue.end(first)
    assert queue.is_in(await queue.ask(None, small))


async def test_a_resumed_run_counts_and_is_never_refused() -> None:
    queue = Queue(max_running=1)
    web, small = key("web", max_running=1), ModelConfig(name="s", target="openai/s", max_running=1)
    first, taken_up = await queue.ask(web, small), await queue.enter_resumed(web, small)
    assert queue.is_in(taken_up)
    await queue.end(first)
    assert queue.problem(await queue.ask(web)).code == "too_many_runs"
    assert queue.problem(await queue.ask(None, small)).code == "too_many_runs"
    await queue.end(taken_up)
    assert queue.is_in(await queue.ask(web, small))


async def test_the_queue_waits_until_resumed_runs_have_made_room() -> None:
    queue = Queue(max_running=1)
    one, other, waiting = (
        await queue.enter_resumed(),
        await queue.enter_resumed(),
        await queue.ask(),
    )
    await queue.end(one)
    assert not queue.is_in(waiting)
    await queue.end(other)
    assert queue.is_in(waiting)


KEYS = [key("one", max_running=2), key("two", max_running=3), None]
MODELS = [MODEL, ModelConfig(name="small", target="openai/s", max_running=2)]


class Places(RuleBasedStateMachine):
    """No slot is lost or invented, whichever runs enter, leave, are cancelled or end."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.queue = self.runner.run(self._queue())
        self.who: dict[int, tuple[KeyConfig | None, ModelConfig]] = {}
        self.ended: set[int] = set()
        self.taken_up: set[int] = set()

    async def _queue(self) -> Queue:
        return Queue(max_running=3, max_queued=3)

    def teardown(self) -> None:
        self.runner.run(self._end_all())
        places = self.queue.places
        assert (places.running, places.waiting) == (0, 0)
        assert not self.queue.counter.slots
        self.runner.close()

    async def _end_all(self) -> None:
        while left := [each for each in self.queue.asked if each not in self.ended]:
            await settle()
            for number in left:
                if self.queue.asked[number].done():
                    self.ended.add(number)
                    if self.queue.is_in(number):
                        await self.queue.end(number)

    @rule(who=st.sampled_from(KEYS), model=st.sampled_from(MODELS))
    def come(self, who: KeyConfig | None, model: ModelConfig) -> None:
        number = self.runner.run(self.queue.ask(who, model))
        self.who[number] = (who, model)

    @rule(who=st.sampled_from(KEYS), model=st.sampled_from(MODELS))
    def resumes(self, who: KeyConfig | None, model: ModelConfig) -> None:
        number = self.runner.run(self.queue.enter_resumed(who, model))
        self.who[number] = (who, model)
        self.taken_up.add(number)

    @precondition(lambda self: self.queue.asked)
    @rule(choices=st.lists(st.tuples(st.integers(0), st.sampled_from("gce")), max_size=4))
    def do_at_once(self, choices: list[tuple[int, str]]) -> None:
        """Several runs leave, are cancelled or end within one step of the event loop."""
        self.runner.run(self._do(choices))

    async def _do(self, choices: list[tuple[int, str]]) -> None:
        numbers = list(self.queue.asked)
        for choice, what in choices:
            number = numbers[choice % len(numbers)]
            if what == "g":
                self.queue.gone[number].set()
            elif what == "c":
                self.queue.asked[number].cancel()
            elif self.queue.is_in(number) and number not in self.ended:
                self.ended.add(number)
                self.queue.asked[number].result()()
        await settle()

    @invariant()
    def every_slot_belongs_to_a_run(self) -> None:
        asked = self.queue.asked
        inside = [each for each in asked if self.queue.is_in(each) and each not in self.ended]
        waiting = [each for each in asked if not asked[each].done()]
        places = self.queue.places
        assert places.running == len(inside)
        assert len(set(inside) - self.taken_up) <= 3
        assert places.waiting == len(waiting) <= 3
        assert not waiting or len(inside) >= 3
        held = [self.who[each] for each in (*inside, *waiting) if each in self.who]
        if len(held) == len(inside) + len(waiting):
            limited = [f"key {who.name}" for who, _ in held if who]
            limited += [f"model {model.name}" for _, model in held if model.max_running]
            assert self.queue.counter.slots == Counter(limited)

    @invariant()
    def only_expected_errors_are_raised(self) -> None:
        for task in self.queue.asked.values():
            if task.done() and not task.cancelled():
                assert isinstance(task.exception(), Refused | ClientGone | None)


TestPlaces = Places.TestCase
TestPlaces.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    database=None,
)
