"""Tokens of failed attempts count if the service reported them."""

import json
from typing import Any

import pytest

from windlass import AsyncClient, ModelError, Price, Usage, tool
from windlass.events import RunEnded
from windlass.models import Retry
from windlass.testing import FakeAnthropic, call, calls, cut, interrupt, refuse, say
from windlass.testing.script import Turn
from windlass.wires.responses.read_events import AnswerDecoder

AT_ONCE = Retry(attempts=3, first_wait=0.0, longest_wait=0.0)
USAGE = Usage(70, 30, 100)


@tool
def step() -> str:
    """Makes one step."""
    return "done"


def client_of(fake: FakeAnthropic, **options: Any) -> AsyncClient:
    key = {"api_key": "k", "base_url": fake.base_url, "retry": AT_ONCE, "tools": [step]}
    return AsyncClient("anthropic/claude-sonnet-4-5", **key, **options)


async def last_event(client: AsyncClient, **options: Any) -> RunEnded:
    run = await client.start("Go", **options)
    events = [event async for event in run.events()]
    assert isinstance(events[-1], RunEnded)
    return events[-1]


async def test_an_attempt_that_was_cut_before_its_first_piece_counts() -> None:
    answer = say("Done.", usage=USAGE)
    with FakeAnthropic([cut(answer, 0), answer]) as fake:
        async with client_of(fake) as client:
            ended = await last_event(client)
    assert ended.reason == "answer"
    assert 70 <= ended.usage.total_tokens - 100 <= 71
    assert ended.usage.input_tokens == 140


async def test_the_tokens_of_a_failed_attempt_count_for_the_budget() -> None:
    turns: list[Turn] = [calls(call("step"), usage=USAGE) for _ in range(9)]
    script = [cut(turns[0], 0), cut(turns[0], 0), *turns]
    with FakeAnthropic(script) as fake:
        async with client_of(fake, max_rounds=9) as client:
            ended = await last_event(client, max_tokens_total=240)
    assert (ended.reason, ended.rounds) == ("budget", 2)


async def test_a_run_that_fails_has_the_tokens_of_its_attempts() -> None:
    answer = say("Never whole.", usage=USAGE)
    prices = {"claude-sonnet-4-5": Price(input=1_000_000, output=0)}
    with FakeAnthropic([cut(answer, 1)]) as fake:
        async with client_of(fake, prices=prices) as client:
            ended = await last_event(client)
    assert (ended.reason, ended.usage.input_tokens, ended.usage.cost) == ("error", 70, 70)


async def test_a_failed_response_has_its_usage() -> None:
    usage = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    failed = {
        "status": "failed",
        "error": {"code": "server_error", "message": "no"},
        "usage": usage,
    }
    decoder = AnswerDecoder()
    with pytest.raises(ModelError):
        decoder.feed(json.dumps({"type": "response.failed", "response": failed}).encode())
    assert decoder.usage == Usage(7, 2, 9)


async def test_an_error_in_the_stream_has_the_usage_before_it() -> None:
    answer = say("One two three.", usage=USAGE)
    with FakeAnthropic([interrupt(answer, 1, error=refuse(400, "no"))]) as fake:
        async with client_of(fake) as client:
            assert (await last_event(client)).usage.input_tokens == 70
