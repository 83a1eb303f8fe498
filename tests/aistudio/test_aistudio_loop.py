"""The loop keeps its word over the page too, blocking and streamed."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.aistudio.browsing import IN_ONE_BROWSER, chromium, model_in

from windlass import (
    AsyncClient,
    FunctionDeclaration,
    ModelError,
    RoundLimitExceeded,
    ToolError,
    tool,
)
from windlass.testing import call, calls, raw_call, say, think
from windlass.testing.aistudio import FakeAIStudio, model_error

__all__ = ["chromium"]

pytestmark = IN_ONE_BROWSER


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def broken() -> str:
    """Always fails."""
    raise RuntimeError("password=hunter2")


class Stage:
    """One page for all tests, each with a script and a chat of its own."""

    def __init__(self, chromium: Browser) -> None:
        self.script: deque[Any] = deque()
        self.fake = FakeAIStudio(lambda _: self.script.popleft())
        self._chromium = chromium

    async def __aenter__(self) -> Self:
        self.fake.__enter__()
        self.model = model_in(self._chromium, self.fake.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.model.aclose()
        self.fake.__exit__()


class Asking:
    """Runs over a script on the page: `await ask(script, "?", tools=[...])` is the reply."""

    def __init__(self, stage: Stage, *, streamed: bool) -> None:
        self._stage, self._streamed = stage, streamed
        stage.script.clear()
        stage.fake.requests.clear()

    async def __call__(self, script: Any, prompt: Any = "?", **options: Any) -> Any:
        self._stage.script.extend(script)
        client = AsyncClient(self._stage.model, mode="native")
        if not self._streamed:
            return await client.generate(prompt, **options)
        async with client.stream(prompt, **options) as stream:
            async for _ in stream:
                pass
        return stream.reply

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What the page was asked."""
        return [request.body for request in self._stage.fake.requests]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stage(chromium: Browser) -> AsyncIterator[Stage]:
    async with Stage(chromium) as stage:
        yield stage


@pytest.fixture(params=["blocking", "streamed"])
def ask(stage: Stage, request: pytest.FixtureRequest) -> Asking:
    return Asking(stage, streamed=request.param == "streamed")


async def test_a_tool_is_run_and_its_result_handed_back(ask: Asking) -> None:
    script = [call("get_weather", city="Paris"), "It is sunny."]
    reply = await ask(script, "Weather in Paris?", tools=[get_weather])
    assert (reply.text, reply.stop_reason) == ("It is sunny.", "answer")
    assert [(c.name, c.arguments) for c in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert [r.output for r in reply.results] == ["sunny in Paris"]
    assert [m.role for m in reply.messages] == ["user", "assistant", "tool", "assistant"]
    assert [body["prompt"] for body in ask.bodies] == ["Weather in Paris?", None]


async def test_an_answer_without_calls_takes_one_request(ask: Asking) -> None:
    reply = await ask(["Hello."], "Hi", tools=[get_weather])
    assert (reply.text, len(reply.rounds), reply.calls) == ("Hello.", 1, ())


async def test_thoughts_and_text_beside_a_call_are_kept_apart(ask: Asking) -> None:
    script = [think("hm", calls(call("get_weather", city="A"), text="First.")), "done"]
    reply = await ask(script, tools=[get_weather])
    turn = reply.messages[1]
    assert (turn.thoughts, turn.text, len(turn.calls)) == ("hm", "First.", 1)


async def test_results_come_back_in_call_order_not_in_order_of_completion(ask: Asking) -> None:
    second_done = asyncio.Event()

    async def slow(n: int) -> int:
        if n == 1:
            await second_done.wait()
        else:
            second_done.set()
        return n

    reply = await ask([calls(call("slow", n=1), call("slow", n=2)), "done"], tools=[slow])
    assert [r.output for r in reply.results] == [1, 2]
    answers = ask.bodies[1]["answers"]
    assert [answer["response"] for answer in answers] == ['{"output":1}', '{"output":2}']


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (raw_call("get_weather", '{"city": '), "Invalid arguments for get_weather"),
        (call("get_weather"), "city"),
        (call("broken"), "broken failed with an internal error."),
    ],
)
async def test_every_bad_call_gets_an_answer_that_the_model_can_use(
    ask: Asking, turn: Any, expected: str
) -> None:
    reply = await ask([turn, "sorry"], tools=[get_weather, broken])
    assert reply.text == "sorry"
    assert expected in reply.results[0].error
    assert "hunter2" not in str(ask.bodies[1])


async def test_a_call_of_an_unknown_tool_is_answered_with_the_known_ones(ask: Asking) -> None:
    reply = await ask([call("get_wether", city="Paris"), "sorry"], tools=[get_weather])
    assert reply.results[0].error == "There is no tool 'get_wether'. Known: get_weather."


async def test_the_text_of_a_tool_error_reaches_the_model(ask: Asking) -> None:
    def picky(city: str) -> str:
        raise ToolError("Use a real city.")

    reply = await ask([call("picky", city="X"), "sorry"], tools=[picky])
    assert reply.results[0].error == "Use a real city."
    assert "Use a real city." in ask.bodies[1]["answers"][0]["response"]


async def test_after_the_last_round_one_request_without_tools_forces_an_answer(
    ask: Asking,
) -> None:
    script = [call("get_weather", city="A"), call("get_weather", city="B"), "Enough."]
    reply = await ask(script, tools=[get_weather], max_rounds=2)
    assert (reply.text, reply.stop_reason) == ("Enough.", "max_rounds")
    switches = [body["switches"]["function_calling"] for body in ask.bodies]
    assert switches == [True, True, False]


async def test_on_limit_error_raises_with_the_messages_so_far(ask: Asking) -> None:
    with pytest.raises(RoundLimitExceeded) as caught:
        await ask(
            [call("get_weather", city="A"), call("get_weather", city="B")],
            tools=[get_weather],
            max_rounds=1,
            on_limit="error",
        )
    assert len(caught.value.messages) >= 3


async def test_tool_choice_none_stays_none(ask: Asking) -> None:
    reply = await ask(["No tools."], tools=[get_weather], tool_choice="none")
    assert reply.text == "No tools."
    assert ask.bodies[0]["switches"]["function_calling"] is False


async def test_a_forced_call_is_forced_once(ask: Asking) -> None:
    script = [call("get_weather", city="Paris"), "done"]
    reply = await ask(script, tools=[get_weather], tool_choice="required")
    assert reply.text == "done"


async def test_usage_is_summed_and_kept_per_round(ask: Asking) -> None:
    reply = await ask([call("get_weather", city="A"), say("done")], tools=[get_weather])
    assert [each.usage.total_tokens for each in reply.rounds] == [15, 15]
    assert reply.usage.total_tokens == 30


async def test_a_model_that_fails_raises_its_error(ask: Asking) -> None:
    with pytest.raises(ModelError, match="Broken today"):
        await ask([model_error("Broken today")] * 3, tools=[get_weather])


async def test_a_failing_follow_up_does_not_run_the_first_rounds_tools_again(ask: Asking) -> None:
    runs: list[str] = []

    def count(city: str) -> str:
        runs.append(city)
        return city

    script = [call("count", city="A"), model_error("Passing"), "done"]
    reply = await ask(script, tools=[count])
    assert (reply.text, runs) == ("done", ["A"])


async def test_a_declared_tool_without_a_function_is_handed_back(ask: Asking) -> None:
    reply = await ask([call("theirs", x="1")], tools=[FunctionDeclaration("theirs")])
    assert (reply.stop_reason, reply.calls[0].name) == ("calls", "theirs")
