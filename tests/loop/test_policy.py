"""What a forced `tool_choice` demands, and what each request lets the model call: as a table."""

from itertools import product
from typing import Any, get_args

import pytest

from windlass.content import FunctionCall, FunctionDeclaration, GoogleSearch, Message, Usage
from windlass.events import FinishReason, Outcome
from windlass.loop.policy import (
    MEETS_DEMAND,
    Demand,
    OnLimit,
    Policy,
    Step,
    Terms,
    demand_of,
    next_step,
    terms_of,
)
from windlass.loop.turn import Turn
from windlass.model import AUTO, NONE, ToolChoice, tool_choice_from
from windlass.reply import RoundRecord, failure
from windlass.tool import Tool


def lookup() -> str:
    """A tool that Windlass runs."""
    return "found"


# `s` and `t` are run here, `c` and `d` by the caller.
TOOLS = {
    "s": Tool(None, lookup, name="s"),
    "t": Tool(None, lookup, name="t"),
    "c": Tool(FunctionDeclaration("c")),
    "d": Tool(FunctionDeclaration("d")),
}
REQUIRED = ToolChoice("required")


def named(*names: str, only: bool = False) -> ToolChoice:
    return ToolChoice("required", names, only)


def ran(name: str, outcome: Outcome = "ok") -> RoundRecord:
    """A round in which one call of that tool ended like this."""
    call = FunctionCall(name, "{}", "call_1")
    answer = failure(call, "why", outcome)
    return RoundRecord(1, Message.assistant(call), "tool_calls", Usage(), (answer,))


@pytest.mark.parametrize(
    ("choice", "offered", "demand"),
    [
        ("auto", "sc", None),
        ("none", "sc", None),
        (ToolChoice("auto", ("c",)), "sc", None),
        # Any tool: the caller's, if it has any.
        ("required", "s", Demand(("s",), False)),
        ("required", "st", Demand(("s", "t"), False)),
        ("required", "c", Demand(("c",), True)),
        ("required", "sc", Demand(("c",), True)),
        ("required", "stcd", Demand(("c", "d"), True)),
        # One tool by its name: whoever runs it.
        ("s", "sc", Demand(("s",), False)),
        ("c", "sc", Demand(("c",), True)),
        # One of several.
        (named("s", "t"), "stc", Demand(("s", "t"), False)),
        (named("s", "c"), "stcd", Demand(("c",), True)),
        (named("c", "d"), "stcd", Demand(("c", "d"), True)),
    ],
)
def test_the_demands_of_a_tool_choice(choice: Any, offered: str, demand: Demand | None) -> None:
    tools = {name: TOOLS[name] for name in offered}
    assert demand_of(Policy(tool_choice=tool_choice_from(choice)), tools) == demand


def test_without_server_tools_every_call_is_the_callers() -> None:
    policy = Policy(tool_choice=REQUIRED, execute_tools=False)
    assert demand_of(policy, TOOLS) == Demand(tuple("stcd"), True)


def test_a_tool_of_the_provider_is_never_called_here() -> None:
    search = Tool(GoogleSearch())
    tools = {search.name: search, "s": TOOLS["s"]}
    assert demand_of(Policy(tool_choice=REQUIRED), tools) == Demand(("s",), False)


def test_every_outcome_meets_a_demand_or_does_not() -> None:
    assert set(MEETS_DEMAND) == set(get_args(Outcome))


@pytest.mark.parametrize("outcome", get_args(Outcome))
@pytest.mark.parametrize("name", TOOLS)
def test_a_demand_is_met_by_a_call_of_its_tools_that_ran(outcome: Outcome, name: str) -> None:
    rounds = [ran("t"), ran(name, outcome)]
    demand = Demand(("s",), is_for_caller=False)
    assert demand.is_met(rounds) is (name == "s" and MEETS_DEMAND[outcome])
    assert not demand.is_met([])


EVERY_LIMIT: list[tuple[OnLimit, int, int, bool]] = list(
    product(get_args(OnLimit), (0, 1, 3), (0, 1, 2, 3), (False, True))
)
"""`on_limit` and `max_rounds` of a policy, the rounds that have run, and whether calls repeat."""


@pytest.mark.parametrize(
    ("choice", "open_names"),
    [(REQUIRED, ("c", "d")), (named("c"), ("c",)), (named("s", "d", only=True), ("d",))],
)
def test_a_demand_for_the_caller_holds_to_the_end_of_the_run(
    choice: ToolChoice, open_names: tuple[str, ...]
) -> None:
    """The model must make a call; after the limit, a call of the caller's tools."""
    for on_limit, max_rounds, rounds_run, repeating in EVERY_LIMIT:
        policy = Policy(tool_choice=choice, on_limit=on_limit, max_rounds=max_rounds)
        rounds = [ran("s")] * rounds_run
        terms = terms_of(policy, demand_of(policy, TOOLS), rounds, rounds_run, repeating=repeating)
        if repeating or rounds_run >= max_rounds:
            assert terms == Terms(ToolChoice("required", open_names), open_names)
            assert (terms.is_last, terms.tools_off) == (True, False)
        else:
            assert terms == Terms(choice)
            assert (terms.is_last, terms.tools_off) == (False, False)


@pytest.mark.parametrize(
    ("choice", "others", "then"),
    [
        (REQUIRED, "", AUTO),
        (named("s"), "c", AUTO),
        (named("s", "t"), "c", AUTO),
        (named("s", only=True), "c", ToolChoice("auto", ("s",))),
        (named("s", "t", only=True), "c", ToolChoice("auto", ("s", "t"))),
    ],
)
@pytest.mark.parametrize("called", ["s", "other"])
def test_a_demand_for_a_tool_that_runs_here_holds_until_it_ran(
    choice: ToolChoice, others: str, then: ToolChoice, called: str
) -> None:
    for on_limit, max_rounds, rounds_run, repeating in EVERY_LIMIT:
        policy = Policy(tool_choice=choice, on_limit=on_limit, max_rounds=max_rounds)
        demand = demand_of(policy, {name: TOOLS[name] for name in f"st{others}"})
        rounds = [ran(called)] * rounds_run
        terms = terms_of(policy, demand, rounds, rounds_run, repeating=repeating)
        if repeating or (on_limit == "final_answer" and rounds_run >= max_rounds):
            assert terms == Terms(NONE, ())
            assert (terms.is_last, terms.tools_off) == (True, True)
        else:
            assert terms == Terms(then if rounds_run and called == "s" else choice)
            assert (terms.is_last, terms.tools_off) == (False, False)


@pytest.mark.parametrize("choice", [AUTO, NONE, ToolChoice("auto", ("s", "c"))])
def test_a_choice_that_demands_nothing_stays_as_it_is(choice: ToolChoice) -> None:
    for on_limit, max_rounds, rounds_run, repeating in EVERY_LIMIT:
        policy = Policy(tool_choice=choice, on_limit=on_limit, max_rounds=max_rounds)
        rounds = [ran("s")] * rounds_run
        terms = terms_of(policy, demand_of(policy, TOOLS), rounds, rounds_run, repeating=repeating)
        off = repeating or (on_limit == "final_answer" and rounds_run >= max_rounds)
        assert terms == (Terms(NONE, ()) if off else Terms(choice))


def turn_of(names: str, finish: FinishReason = "tool_calls") -> Turn:
    calls = tuple(FunctionCall(name, "{}", f"call_{name}") for name in names)
    return Turn(Message.assistant(*calls), calls, finish, Usage())


def step_of(turn: Turn, policy: Policy, rounds_run: int, *, is_last: bool = False) -> Step:
    theirs = [call for call in turn.calls if not TOOLS[call.name].runnable]
    return next_step(turn, policy, rounds_run, False, theirs, is_last=is_last)


@pytest.mark.parametrize("on_limit", get_args(OnLimit))
@pytest.mark.parametrize("rounds_run", [0, 1, 2])
def test_calls_that_are_all_the_callers_are_handed_back_at_any_time(
    on_limit: OnLimit, rounds_run: int
) -> None:
    """They need no round of tools, so no limit applies."""
    policy = Policy(on_limit=on_limit, max_rounds=1)
    for is_last in (False, True):
        assert step_of(turn_of("cd"), policy, rounds_run, is_last=is_last) is Step.HAND_BACK


@pytest.mark.parametrize(
    ("names", "on_limit", "step"),
    [
        ("c", "final_answer", Step.HAND_BACK),
        ("sc", "final_answer", Step.HAND_BACK),
        ("s", "final_answer", Step.END),
        ("sc", "error", Step.HAND_BACK),
        ("s", "error", Step.LIMIT),
        ("sc", "return_calls", Step.HAND_BACK),
        ("s", "return_calls", Step.LIMIT),
    ],
)
def test_a_last_request_runs_nothing(names: str, on_limit: OnLimit, step: Step) -> None:
    policy = Policy(tool_choice=REQUIRED, max_rounds=1, on_limit=on_limit)
    assert step_of(turn_of(names), policy, 1, is_last=True) is step
    assert step_of(turn_of(""), policy, 1, is_last=True) is Step.END


def test_a_cut_turn_of_a_last_request_ends_the_run() -> None:
    policy = Policy(tool_choice=REQUIRED, max_rounds=1)
    assert step_of(turn_of("sc", "length"), policy, 1, is_last=True) is Step.REFUSE_CALLS
    assert step_of(turn_of("s", "length"), policy, 1, is_last=True) is Step.END
