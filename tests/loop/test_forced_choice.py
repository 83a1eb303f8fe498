"""A forced `tool_choice` in the loop applies until the demanded call was made."""

from typing import Any

import pytest
from tests.conftest import MakeClient, events_of, requests_of

from windlass import AsyncClient, FunctionDeclaration, RoundLimitExceeded, Status, tool
from windlass.events import RoundStarted, ToolRunStarted
from windlass.model import AUTO, ToolChoice
from windlass.testing import ScriptedModel, call, calls

RING = FunctionDeclaration(
    "ring",
    "Rings a bell.",
    {"type": "object", "properties": {"times": {"type": "integer"}}, "required": ["times"]},
)
DIAL = FunctionDeclaration("dial", "Dials.", RING.parameters)
REQUIRED = ToolChoice("required")


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


@tool
def count(word: str) -> int:
    """Counts letters."""
    return len(word)


def choices_of(client: AsyncClient) -> list[ToolChoice]:
    return [request.tool_choice for request in requests_of(client)]


def offered_to(client: AsyncClient) -> list[list[str]]:
    """The names of the tools that each request offered."""
    return [[each.name for each in request.tools] for request in requests_of(client)]


async def test_a_required_call_of_the_caller_stays_required_after_rounds_of_other_tools(
    client_of: MakeClient,
) -> None:
    script = [call("lookup", city="Rome"), call("count", word="Rome"), call("ring", times=4)]
    client = client_of(script)
    reply = await client.generate("?", tools=[lookup, count, RING], tool_choice="required")
    assert reply.stop_reason == "calls"
    assert [(c.name, c.arguments) for c in reply.pending] == [("ring", {"times": 4})]
    assert [r.output for r in reply.results] == ["sunny in Rome", 4]
    assert choices_of(client) == [REQUIRED] * 3


async def test_a_required_call_of_tools_that_run_here_is_met_by_one_round(
    client_of: MakeClient,
) -> None:
    client = client_of([call("lookup", city="Rome"), "Sunny."])
    reply = await client.generate("?", tools=[lookup, count], tool_choice="required")
    assert (reply.text, reply.stop_reason) == ("Sunny.", "answer")
    assert choices_of(client) == [REQUIRED, AUTO]


@pytest.mark.native  # emulation makes no call of a tool that may not be called
async def test_a_named_tool_that_runs_here_is_demanded_until_it_ran(client_of: MakeClient) -> None:
    client = client_of([call("count", word="Rome"), call("lookup", city="Rome"), "Sunny."])
    reply = await client.generate("?", tools=[lookup, count, RING], tool_choice="lookup")
    assert (reply.text, reply.stop_reason) == ("Sunny.", "answer")
    forced = ToolChoice("required", ("lookup",))
    assert choices_of(client) == [forced, forced, AUTO]


async def test_a_call_whose_arguments_are_wrong_is_demanded_again(client_of: MakeClient) -> None:
    client = client_of([call("lookup", town="Rome"), call("lookup", city="Rome"), "Sunny."])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="lookup")
    assert reply.text == "Sunny."
    assert [choice.mode for choice in choices_of(client)] == ["required", "required", "auto"]


@pytest.mark.no_page("it shows no finish reason")
async def test_a_cut_call_is_demanded_again(client_of: MakeClient) -> None:
    cut = calls(call("lookup", city="Rome"), finish="length")
    client = client_of([cut, call("lookup", city="Rome"), "Sunny."])
    reply = await client.generate("?", tools=[lookup], tool_choice="required")
    assert reply.text == "Sunny."
    assert [choice.mode for choice in choices_of(client)] == ["required", "required", "auto"]


async def test_a_named_tool_of_the_callers_ends_the_run_at_once(client_of: MakeClient) -> None:
    client = client_of([call("ring", times=1)])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="ring")
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])
    assert choices_of(client) == [ToolChoice("required", ("ring",))]


async def test_calls_of_both_kinds_in_one_turn_meet_the_demand(client_of: MakeClient) -> None:
    client = client_of([calls(call("lookup", city="Rome"), call("ring", times=1), text="I look.")])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="required")
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])
    assert [r.output for r in reply.results] == ["sunny in Rome"]
    assert reply.text.strip() == "I look."


ALLOWED = ToolChoice("required", ("lookup", "count"), only=True)


async def test_allowed_tools_that_run_here_bound_the_calls_after_the_first(
    client_of: MakeClient,
) -> None:
    client = client_of([call("lookup", city="Rome"), "Sunny."])
    reply = await client.generate("?", tools=[lookup, count, RING], tool_choice=ALLOWED)
    assert reply.text == "Sunny."
    assert choices_of(client) == [ALLOWED, ToolChoice("auto", ("lookup", "count"))]


async def test_of_allowed_tools_of_both_kinds_the_callers_is_demanded(
    client_of: MakeClient,
) -> None:
    allowed = ToolChoice("required", ("lookup", "ring"), only=True)
    client = client_of([call("lookup", city="Rome"), call("ring", times=1)])
    reply = await client.generate("?", tools=[lookup, RING, DIAL], tool_choice=allowed)
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])
    assert choices_of(client) == [allowed, allowed]


# Limits.


@pytest.mark.parametrize("on_limit", ["final_answer", "error", "return_calls"])
@pytest.mark.parametrize("max_rounds", [0, 1, 2])
async def test_after_the_last_round_only_the_callers_tools_are_offered(
    client_of: MakeClient, on_limit: Any, max_rounds: int
) -> None:
    script = [*(call("lookup", city=str(n)) for n in range(max_rounds)), call("dial", times=1)]
    client = client_of(script)
    reply = await client.generate(
        "?",
        tools=[lookup, RING, DIAL],
        tool_choice="required",
        max_rounds=max_rounds,
        on_limit=on_limit,
    )
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["dial"])
    assert len(reply.results) == max_rounds
    assert offered_to(client) == [["lookup", "ring", "dial"]] * max_rounds + [["ring", "dial"]]
    assert choices_of(client)[-1] == ToolChoice("required", ("ring", "dial"))


async def test_a_call_that_keeps_failing_leaves_the_callers_tools(client_of: MakeClient) -> None:
    wrong = call("lookup", town="Rome")
    client = client_of([wrong, wrong, call("ring", times=1)])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="required", max_repeats=1)
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])
    assert offered_to(client)[-1] == ["ring"]


@pytest.mark.native  # emulation makes no call of a tool that is not offered
async def test_nothing_runs_after_the_last_round(client_of: MakeClient) -> None:
    """A model that calls what it is not offered gets an answer for it, and the caller its call."""
    both = calls(call("lookup", city="Oslo"), call("ring", times=1))
    client = client_of([call("lookup", city="Rome"), both])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="required", max_rounds=1)
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])
    ran, refused = reply.results
    assert ran.output == "sunny in Rome"
    assert "last turn" in (refused.error or "")


@pytest.mark.native
async def test_a_model_that_ignores_the_last_demand_ends_at_the_limit(
    client_of: MakeClient,
) -> None:
    client = client_of([call("lookup", city="Rome"), call("lookup", city="Oslo")])
    reply = await client.generate("?", tools=[lookup, RING], tool_choice="required", max_rounds=1)
    assert (reply.stop_reason, reply.pending) == ("max_rounds", ())
    assert len(reply.results) == 2


@pytest.mark.native
async def test_a_last_demand_that_is_ignored_exceeds_the_limit_where_that_is_an_error(
    client_of: MakeClient,
) -> None:
    client = client_of([call("lookup", city="Rome"), call("lookup", city="Oslo")])
    with pytest.raises(RoundLimitExceeded):
        await client.generate(
            "?",
            tools=[lookup, RING],
            tool_choice="required",
            max_rounds=1,
            on_limit="error",
        )


@pytest.mark.parametrize("on_limit", ["error", "return_calls"])
async def test_a_call_of_a_client_tool_does_not_count_towards_the_limit(
    client_of: MakeClient, on_limit: Any
) -> None:
    client = client_of([call("lookup", city="Rome"), call("ring", times=1)])
    reply = await client.generate("?", tools=[lookup, RING], max_rounds=1, on_limit=on_limit)
    assert (reply.stop_reason, [c.name for c in reply.pending]) == ("calls", ["ring"])


async def test_the_last_demand_is_reported(client_of: MakeClient) -> None:
    client = client_of([call("lookup", city="Rome"), call("ring", times=1)])
    events = await events_of(client, tools=[lookup, RING], tool_choice="required", max_rounds=1)
    said = [event.message for event in events if isinstance(event, Status)]
    assert said[-1] == "Maximum tool execution rounds reached. Asking for the required call..."
    assert not any(event.tools_off for event in events if isinstance(event, RoundStarted))


# Streams.


async def test_no_tool_starts_early_in_the_last_turn() -> None:
    """An idempotent tool starts while its turn arrives, but not after the last round."""

    @tool(idempotent=True)
    def peek(city: str) -> str:
        """Looks without touching."""
        return city

    both = calls(call("peek", city="Oslo"), call("ring", times=1))
    wrong = call("peek", town="Rome")
    async with AsyncClient(ScriptedModel([wrong, wrong, both]), mode="native") as client:
        events = await events_of(client, tools=[peek, RING], tool_choice="required", max_repeats=1)
    assert not any(isinstance(event, ToolRunStarted) for event in events)


async def test_a_forced_choice_is_the_same_in_a_stream(client_of: MakeClient) -> None:
    client = client_of([call("lookup", city="Rome"), call("ring", times=1)])
    async with client.stream("?", tools=[lookup, RING], tool_choice="required") as stream:
        async for _ in stream:
            pass
    assert [c.name for c in stream.reply.pending] == ["ring"]
    assert choices_of(client) == [REQUIRED, REQUIRED]
