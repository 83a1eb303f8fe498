"""Who may start a run: rates, numbers and the line, without a clock that really goes."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.gateway.config import KeyConfig, LimitsConfig, ModelConfig
from windlass.gateway.http.context import ClientGone
from windlass.gateway.http.errors import Refused, problem_headers
from windlass.gateway.limits.admission import Admission, LocalCounter, TokenBucket
from windlass.wires.errors import Problem

MODEL = ModelConfig(name="m", target="openai/m")


class Clock:
    """Stands still until it is moved."""

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


async def test_a_rate_does_not_save_up_more_than_a_minute_of_itself() -> None:
    clock = Clock()
    counter = LocalCounter(clock)
    await counter.spend("x", 2)
    clock.now += 3600
    assert [await counter.spend("x", 2) == 0 for _ in range(3)] == [True, True, False]


async def test_asking_too_early_does_not_make_the_wait_longer() -> None:
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
def test_clocks_that_do_not_agree_never_make_a_rate_larger(
    per_minute: int, skews: list[float], steps: list[tuple[int, float]]
) -> None:
    bucket, now, allowed = TokenBucket(per_minute, 1000.0), 1000.0, 0
    for who, seconds in steps:
        now += seconds
        bucket, taken, _ = bucket.spend(2, per_minute, now + skews[who % len(skews)])
        allowed += taken
    most_elapsed = now - 1000.0 + max(0.0, *skews, 0.0)
    assert allowed <= per_minute + most_elapsed * per_minute / 60 + 1e-6


def test_a_clock_that_is_far_ahead_locks_nobody_out() -> None:
    bucket, taken, _ = TokenBucket(1.0, 5000.0).spend(1, 1, 5000.0)
    assert taken == 1
    bucket, taken, wait = bucket.spend(1, 1, 1000.0)
    assert (taken, wait) == (0, 60.0)
    assert bucket.spend(1, 1, 1060.0)[1] == 1


async def test_each_key_has_a_rate_of_its_own() -> None:
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


class Line:
    """An admission, and those who have asked to come in, by number."""

    def __init__(self, **limits: Any) -> None:
        self.refusals: list[str] = []
        self.counter = LocalCounter()
        self.admission = Admission(LimitsConfig(**limits), self.refusals.append, self.counter)
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

    async def take_up(self, who: KeyConfig | None = None, model: ModelConfig = MODEL) -> int:
        """A run that was begun elsewhere."""
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
    """Lets everything happen that can happen without a clock."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_in_the_line_come_in_by_order() -> None:
    line = Line(max_running=1)
    first, second, third = await line.ask(), await line.ask(), await line.ask()
    assert [line.is_in(each) for each in (first, second, third)] == [True, False, False]
    await line.end(first)
    assert [line.is_in(each) for each in (second, third)] == [True, False]
    late = await line.ask()
    await line.end(second)
    assert [line.is_in(each) for each in (third, late)] == [True, False]
    await line.end(third)
    assert line.is_in(late)


async def test_a_full_line_turns_away() -> None:
    line = Line(max_running=1, max_queued=1)
    await line.ask()
    await line.ask()
    refused = line.problem(await line.ask())
    assert (refused.status, refused.code) == (503, "overloaded")
    assert problem_headers(refused) == [(b"retry-after", b"1")]
    assert line.refusals == ["queue_full"]


async def test_who_waits_too_long_is_told_so_and_leaves_the_line() -> None:
    line = Line(max_running=1, max_queued=1, queue_timeout=0)
    first = await line.ask()
    waiting = await line.ask()
    await asyncio.wait([line.asked[waiting]])
    assert (line.problem(waiting).status, line.problem(waiting).code) == (503, "overloaded")
    assert line.refusals == ["queue_timeout"]
    await line.end(first)
    assert line.is_in(await line.ask())


async def test_a_client_that_leaves_the_line_is_not_let_in() -> None:
    line = Line(max_running=1, max_queued=1)
    first, second = await line.ask(), await line.ask()
    line.gone[second].set()
    await settle()
    assert isinstance(line.asked[second].exception(), ClientGone)
    third = await line.ask()
    await line.end(first)
    assert line.is_in(third)
    assert line.refusals == []


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_place_that_comes_as_its_client_leaves_goes_to_the_next(leaves_first: bool) -> None:
    line = Line(max_running=1)
    first, second, third = await line.ask(), await line.ask(), await line.ask()
    steps = [line.gone[second].set, line.asked[first].result()]
    for step in steps if leaves_first else reversed(steps):
        step()
    await settle()
    assert isinstance(line.asked[second].exception(), ClientGone)
    assert line.is_in(third)


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_place_that_comes_as_its_request_is_cancelled_goes_to_the_next(
    cancelled_first: bool,
) -> None:
    line = Line(max_running=1)
    first, second, third = await line.ask(), await line.ask(), await line.ask()
    steps: list[Callable[[], object]] = [line.asked[second].cancel, line.asked[first].result()]
    for step in steps if cancelled_first else reversed(steps):
        step()
    await settle()
    assert line.asked[second].cancelled()
    assert line.is_in(third)


async def test_a_key_may_have_its_number_of_runs_and_those_that_wait_count() -> None:
    line = Line(max_running=1)
    web, app = key("web", max_running=2), key("app", max_running=1)
    first = await line.ask(web)
    await line.ask(web)
    refused = line.problem(await line.ask(web))
    assert (refused.status, refused.code) == (429, "too_many_runs")
    assert problem_headers(refused) == [(b"retry-after", b"1")]
    assert not line.asked[await line.ask(app)].done()
    await line.end(first)
    assert not line.asked[await line.ask(web)].done()
    assert line.refusals == ["concurrency"]


async def test_a_model_may_have_its_number_of_runs() -> None:
    line = Line()
    small = ModelConfig(name="small", target="openai/s", max_running=1)
    first = await line.ask(None, small)
    assert line.problem(await line.ask(None, small)).code == "too_many_runs"
    assert line.is_in(await line.ask())
    await line.end(first)
    assert line.is_in(await line.ask(None, small))


async def test_a_run_that_is_taken_up_counts_and_is_never_refused() -> None:
    line = Line(max_running=1)
    web, small = key("web", max_running=1), ModelConfig(name="s", target="openai/s", max_running=1)
    first, taken_up = await line.ask(web, small), await line.take_up(web, small)
    assert line.is_in(taken_up)
    await line.end(first)
    assert line.problem(await line.ask(web)).code == "too_many_runs"
    assert line.problem(await line.ask(None, small)).code == "too_many_runs"
    await line.end(taken_up)
    assert line.is_in(await line.ask(web, small))


async def test_the_line_waits_until_runs_that_were_taken_up_have_made_room() -> None:
    line = Line(max_running=1)
    one, other, waiting = await line.take_up(), await line.take_up(), await line.ask()
    await line.end(one)
    assert not line.is_in(waiting)
    await line.end(other)
    assert line.is_in(waiting)


KEYS = [key("one", max_running=2), key("two", max_running=3), None]
MODELS = [MODEL, ModelConfig(name="small", target="openai/s", max_running=2)]


class Places(RuleBasedStateMachine):
    """Whatever comes, leaves, is cancelled and ends: nobody's place is lost, and none is made."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.line = self.runner.run(self._line())
        self.who: dict[int, tuple[KeyConfig | None, ModelConfig]] = {}
        self.ended: set[int] = set()
        self.taken_up: set[int] = set()

    async def _line(self) -> Line:
        return Line(max_running=3, max_queued=3)

    def teardown(self) -> None:
        self.runner.run(self._end_all())
        admission = self.line.admission
        assert (admission._running, len(admission._queue)) == (0, 0)
        assert not self.line.counter.slots
        self.runner.close()

    async def _end_all(self) -> None:
        while left := [each for each in self.line.asked if each not in self.ended]:
            await settle()
            for number in left:
                if self.line.asked[number].done():
                    self.ended.add(number)
                    if self.line.is_in(number):
                        await self.line.end(number)

    @rule(who=st.sampled_from(KEYS), model=st.sampled_from(MODELS))
    def come(self, who: KeyConfig | None, model: ModelConfig) -> None:
        number = self.runner.run(self.line.ask(who, model))
        self.who[number] = (who, model)

    @rule(who=st.sampled_from(KEYS), model=st.sampled_from(MODELS))
    def is_taken_up(self, who: KeyConfig | None, model: ModelConfig) -> None:
        number = self.runner.run(self.line.take_up(who, model))
        self.who[number] = (who, model)
        self.taken_up.add(number)

    @precondition(lambda self: self.line.asked)
    @rule(choices=st.lists(st.tuples(st.integers(0), st.sampled_from("gce")), max_size=4))
    def do_at_once(self, choices: list[tuple[int, str]]) -> None:
        """Goes away, is cancelled, or ends: several before anybody can act on any of it."""
        self.runner.run(self._do(choices))

    async def _do(self, choices: list[tuple[int, str]]) -> None:
        numbers = list(self.line.asked)
        for choice, what in choices:
            number = numbers[choice % len(numbers)]
            if what == "g":
                self.line.gone[number].set()
            elif what == "c":
                self.line.asked[number].cancel()
            elif self.line.is_in(number) and number not in self.ended:
                self.ended.add(number)
                self.line.asked[number].result()()
        await settle()

    @invariant()
    def every_place_is_somebodys(self) -> None:
        asked = self.line.asked
        inside = [each for each in asked if self.line.is_in(each) and each not in self.ended]
        waiting = [each for each in asked if not asked[each].done()]
        admission = self.line.admission
        assert admission._running == len(inside)
        assert len(set(inside) - self.taken_up) <= 3
        assert len(admission._queue) == len(waiting) <= 3
        assert not waiting or len(inside) >= 3
        held = [self.who[each] for each in (*inside, *waiting) if each in self.who]
        if len(held) == len(inside) + len(waiting):
            limited = [f"key {who.name}" for who, _ in held if who]
            limited += [f"model {model.name}" for _, model in held if model.max_running]
            assert self.line.counter.slots == Counter(limited)

    @invariant()
    def only_what_is_expected_is_raised(self) -> None:
        for task in self.line.asked.values():
            if task.done() and not task.cancelled():
                assert isinstance(task.exception(), Refused | ClientGone | None)


TestPlaces = Places.TestCase
TestPlaces.settings = settings(
    max_examples=60, stateful_step_count=25, derandomize=True, deadline=None, database=None
)
