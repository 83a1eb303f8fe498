"""Budgets of a run: tokens and cost, with each way to end at a limit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from windlass import (
    AsyncClient,
    BudgetExceeded,
    Client,
    ConfigError,
    ModelRequest,
    Price,
    RoundLimitExceeded,
    Usage,
    tool,
)
from windlass.events import ModelEvent, RoundStarted, RunEnded, RunEvent, Status, TurnEnded
from windlass.testing import ScriptedModel, call, calls, say
from windlass.testing.script import Turn

PRICE = Price(input=10, output=40, cached_input=1)
PRICES = {"model": PRICE}
ROUND = Usage(80, 20, 100)
COST = Decimal("0.0016")
"""The cost of a round."""

ran: list[int] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
def step(n: int) -> int:
    """Makes one step."""
    ran.append(n)
    return n


def turn(n: int, usage: Usage = ROUND) -> Turn:
    return calls(call("step", n=n), usage=usage)


def endless(usage: Usage = ROUND) -> ScriptedModel:
    """Calls a tool in every round that offers one."""
    made: list[Turn] = []

    def answer(request: Any) -> Turn:
        made.append(turn(len(made) + 1, usage))
        return made[-1] if request.tools else say("That is all.", usage=usage)

    return ScriptedModel(answer)


async def events_of(client: AsyncClient, **options: Any) -> list[RunEvent]:
    async with client.stream("Go", **options) as stream:
        return [event async for event in stream]


@pytest.mark.parametrize("budget", [1, 99, 100, 101, 199, 200, 250, 299, 300, 1000])
async def test_a_budget_of_tokens_ends_a_run_with_an_answer_after_at_most_one_more_round(
    budget: int,
) -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=50) as client:
        reply = await client.generate("Go", max_tokens_total=budget)
    assert (reply.stop_reason, reply.text) == ("budget", "That is all.")
    before = reply.rounds[:-1]
    assert sum(record.usage.total_tokens for record in before[:-1]) < budget
    assert all(answer.ok for record in before for answer in record.answers)
    if budget >= 100:  # the first round fits, so that the others are as expected
        assert reply.usage.total_tokens <= budget + 100


async def test_the_end_is_in_the_events_and_says_which_budget() -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=50) as client:
        events = await events_of(client, max_tokens_total=250)
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (end.reason, end.budget, end.rounds) == ("budget", "max_tokens_total", 3)
    [status] = [
        each.message for each in events if isinstance(each, Status) and "budget" in each.message
    ]
    assert status == "The budget (max_tokens_total) is used up. Generating final response..."
    assert [each.tools_off for each in events if isinstance(each, RoundStarted)] == [
        False,
        False,
        True,
    ]


async def test_a_budget_that_ends_with_the_last_round_is_reported_as_the_limit_of_rounds() -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=2) as client:
        events = await events_of(client, max_tokens_total=200)
    said = [each.message for each in events if isinstance(each, Status)]
    assert "Maximum tool execution rounds reached. Generating final response..." in said
    assert not any("budget" in each for each in said)


def test_a_budget_works_the_same_in_a_blocking_client() -> None:
    with Client(endless(), tools=[step], max_tokens_total=250, max_rounds=50) as client:
        assert client.generate("Go").stop_reason == "budget"
        with client.stream("Go") as stream:
            assert isinstance(list(stream)[-1], RunEnded)
        assert stream.reply.stop_reason == "budget"
        assert client.chat().send("Go").stop_reason == "budget"
        assert client.start("Go").result().stop_reason == "budget"


async def test_an_answer_within_the_budget_is_an_answer() -> None:
    async with AsyncClient(ScriptedModel([turn(1), say("Done.", usage=ROUND)])) as client:
        reply = await client.generate("Go", tools=[step], max_tokens_total=200)
    assert (reply.stop_reason, reply.text, reply.usage.total_tokens) == ("answer", "Done.", 200)


async def test_an_answer_that_exceeds_the_budget_is_an_answer() -> None:
    async with AsyncClient(ScriptedModel([say("Done.", usage=ROUND)])) as client:
        assert (await client.generate("Go", max_tokens_total=5)).stop_reason == "answer"


async def test_rounds_that_reach_their_limit_first_are_the_reason() -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=1) as client:
        assert (await client.generate("Go", max_tokens_total=10_000)).stop_reason == "max_rounds"


async def test_a_cost_is_counted_and_limited() -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=50, prices=PRICES) as client:
        reply = await client.generate("Go", max_cost=0.0048)
    assert (reply.stop_reason, reply.cost, reply.usage.cost) == ("budget", 4 * COST, 4 * COST)
    assert [record.usage.cost for record in reply.rounds] == [COST] * 4


async def test_the_events_have_the_cost() -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=1, prices=PRICES) as client:
        events = await events_of(client)
    assert [each.usage.cost for each in events if isinstance(each, TurnEnded)] == [COST, COST]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].usage.cost == 2 * COST


async def test_cached_tokens_cost_their_own_price() -> None:
    answer = say("Hi", usage=Usage(1_000_000, 0, 1_000_000, 900_000))
    async with AsyncClient(ScriptedModel([answer, answer])) as client:
        assert (await client.generate("Go", prices=PRICES)).cost == Decimal("1.9")
        plain = {"model": Price(input=10, output=40)}
        assert (await client.generate("Go", prices=plain)).cost == 10


async def test_without_prices_there_is_no_cost_and_no_limit_of_it() -> None:
    async with AsyncClient(ScriptedModel([say("Hi")])) as client:
        assert (await client.generate("Go")).cost is None
        for prices in (None, {"other": PRICE}):
            with pytest.raises(
                ConfigError,
                match=r"max_cost needs the price of 'scripted/model'.*"
                r"prices=\{'model': Price\(input=..., output=...",
            ):
                await client.generate("Go", max_cost=1, prices=prices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens_total": 0}, "max_tokens_total must be at least 1, not 0"),
        ({"max_cost": 0, "prices": PRICES}, "max_cost must be above 0, not 0"),
        ({"max_cost": "much", "prices": PRICES}, "max_cost must be a number, not 'much'"),
        ({"max_cost": -1, "prices": PRICES}, "max_cost must be 0 or more, not -1"),
        ({"timeout": 0}, "timeout must be above 0 seconds, not 0"),
        ({"token_budget": 3}, "did you mean 'max_tokens_total'"),
    ],
)
async def test_a_wrong_budget_is_refused(options: Any, message: str) -> None:
    async with AsyncClient(ScriptedModel([])) as client:
        with pytest.raises(ConfigError, match=message):
            await client.generate("Go", **options)


@pytest.mark.parametrize("live", [False, True])
async def test_with_on_limit_error_the_run_fails_and_its_last_calls_do_not_start(
    live: bool,
) -> None:
    async with AsyncClient(endless(), tools=[step], max_rounds=50, on_limit="error") as client:
        with pytest.raises(BudgetExceeded, match="has used up its max_tokens_total") as caught:
            if live:
                await events_of(client, max_tokens_total=250)
            else:
                await client.generate("Go", max_tokens_total=250)
    assert caught.value.usage.total_tokens == 300
    assert caught.value.budget == "max_tokens_total"
    assert [each.arguments for each in caught.value.calls] == [{"n": 3}]
    assert len(caught.value.messages) == 6
    assert ran == [1, 2]


class PausingModel:
    """Pauses between the calls of a turn and its end."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model, self.name = model, model.name

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        async def paused(events: AsyncIterator[ModelEvent]) -> AsyncIterator[ModelEvent]:
            async for event in events:
                if isinstance(event, TurnEnded):
                    for _ in range(50):
                        await asyncio.sleep(0)
                yield event

        async with self._model.stream(request) as events:
            yield paused(events)

    async def aclose(self) -> None:
        await self._model.aclose()


@pytest.mark.parametrize(("limit", "early"), [(None, [1, 2, 3]), (250, [1, 2])])
async def test_an_idempotent_call_that_a_budget_may_refuse_does_not_start_early(
    limit: int | None, early: list[int]
) -> None:
    begun: list[int] = []

    @tool(idempotent=True)
    async def step(n: int) -> int:
        """Makes one step. It may start before a streamed turn ends."""
        begun.append(n)
        return n

    options: dict[str, Any] = {"on_limit": "error", "max_rounds": 3 if limit is None else 50}
    async with AsyncClient(PausingModel(endless()), tools=[step], **options) as client:
        with pytest.raises((BudgetExceeded, RoundLimitExceeded)):
            await events_of(client, max_tokens_total=limit)
    assert begun == early


async def test_with_return_calls_the_caller_gets_them() -> None:
    options: dict[str, Any] = {"on_limit": "return_calls", "max_rounds": 50}
    async with AsyncClient(endless(), tools=[step], **options) as client:
        reply = await client.generate("Go", max_cost="0.004", prices=PRICES)
    assert (reply.stop_reason, len(reply.pending), ran) == ("budget", 1, [1, 2])
    assert len(reply.follow_up({reply.pending[0].id: 3})) == 7


async def test_a_demanded_call_of_the_caller_is_still_made() -> None:
    declared = {"name": "finish", "parameters": {"type": "object", "properties": {}}}

    def answer(request: Any) -> Turn:
        only = [each.name for each in request.tools] == ["finish"]
        return calls(call("finish"), usage=ROUND) if only else turn(len(ran) + 1)

    async with AsyncClient(ScriptedModel(answer), tools=[step, declared]) as client:
        reply = await client.generate(
            "Go", tool_choice="required", max_tokens_total=250, max_rounds=50
        )
    assert (reply.stop_reason, [each.name for each in reply.pending]) == ("calls", ["finish"])
    assert reply.usage.total_tokens == 300


async def test_calls_returned_to_the_caller_need_no_budget() -> None:
    async with AsyncClient(endless(), tools=[step]) as client:
        reply = await client.generate("Go", execute_tools=False, max_tokens_total=1)
    assert (reply.stop_reason, len(reply.pending)) == ("calls", 1)


async def test_a_model_that_reports_no_tokens_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncClient(ScriptedModel([say("Hi.", usage=Usage())] * 2)) as client:
        await client.generate("Go")
        assert caplog.messages == []
        await client.generate("Go", max_tokens_total=10)
    assert caplog.messages == ["The model reported no tokens, so budgets do not count this round"]


async def test_a_usage_without_a_total_counts() -> None:
    async with AsyncClient(endless(Usage(80, 20)), tools=[step], max_rounds=50) as client:
        assert len((await client.generate("Go", max_tokens_total=250)).rounds) == 3
