"""The loop: its guarantees for any behaviour of the model."""

import asyncio
import logging
from typing import Any

import pytest
from tests.conftest import MakeClient, events_of, requests_of

from windlass import (
    FunctionDeclaration,
    FunctionResponse,
    Message,
    ModelError,
    RoundLimitExceeded,
    RunEnded,
    Status,
    Text,
    TextDelta,
    Thought,
    ToolError,
    ToolRunEnded,
    Usage,
    tool,
)
from windlass.testing import call, calls, raw_call, refuse, say, think


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@tool
def broken() -> str:
    """Always fails."""
    raise RuntimeError("password=hunter2")


@pytest.mark.on_page
async def test_a_tool_is_run_and_its_result_handed_back(client_of: MakeClient) -> None:
    client = client_of([call("get_weather", city="Paris"), "It is sunny."])
    reply = await client.generate("Weather in Paris?", tools=[get_weather])
    assert reply.text == "It is sunny."
    assert reply.stop_reason == "answer"
    assert [(c.name, c.arguments) for c in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert [r.output for r in reply.results] == ["sunny in Paris"]
    assert [m.role for m in reply.messages] == ["user", "assistant", "tool", "assistant"]


async def test_an_answer_without_calls_takes_one_request(client_of: MakeClient) -> None:
    client = client_of(["Hello."])
    reply = await client.generate("Hi", tools=[get_weather])
    assert (reply.text, len(reply.rounds), reply.calls) == ("Hello.", 1, ())


async def test_calls_decide_that_tools_are_needed_not_the_finish_reason(
    client_of: MakeClient,
) -> None:
    client = client_of([calls(call("get_weather", city="Rome"), finish="stop"), "done"])
    reply = await client.generate("?", tools=[get_weather])
    assert reply.results[0].output == "sunny in Rome"


async def test_a_finish_of_tool_calls_without_calls_is_an_answer(client_of: MakeClient) -> None:
    reply = await client_of([say("hm", finish="tool_calls")]).generate("?", tools=[get_weather])
    assert (reply.text, reply.stop_reason) == ("hm", "answer")


@pytest.mark.no_page("it shows no signatures")
@pytest.mark.no_wire("an empty part ends each thought", "responses", "anthropic")
@pytest.mark.native  # text carries no signatures
async def test_every_follow_up_holds_all_earlier_rounds_unmodified(client_of: MakeClient) -> None:
    script = [
        think("hm", calls(call("get_weather", city="A", signature="sig"), text="First.")),
        calls(call("get_weather", city="B"), call("get_weather", city="C")),
        "done",
    ]
    client = client_of(script)
    reply = await client.generate("?", tools=[get_weather])
    first, second, third = requests_of(client)
    assert second.messages[: len(first.messages)] == first.messages
    assert third.messages[: len(second.messages)] == second.messages
    turn = second.messages[1]
    assert [type(part) for part in turn.parts] == [Thought, Text, type(reply.calls[0])]
    assert turn.calls[0].signature == "sig"
    assert [r.output for r in third.messages[4].responses] == ["sunny in B", "sunny in C"]


@pytest.mark.on_page
async def test_results_come_back_in_call_order_not_in_order_of_completion(
    client_of: MakeClient,
) -> None:
    second_done = asyncio.Event()

    async def slow(n: int) -> int:
        if n == 1:
            await second_done.wait()
        else:
            second_done.set()
        return n

    client = client_of([calls(call("slow", n=1), call("slow", n=2)), "done"])
    reply = await client.generate("?", tools=[slow])
    assert [r.output for r in reply.results] == [1, 2]


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        pytest.param(
            raw_call("get_weather", '{"city": '),
            "Invalid arguments for get_weather",
            marks=pytest.mark.no_wire("arguments are an object there", "anthropic", "gemini"),
        ),
        (call("get_weather"), "city"),
        (call("get_weather", city=["a"]), "city"),
        (call("broken"), "broken failed with an internal error."),
    ],
)
async def test_every_bad_call_gets_an_answer_that_the_model_can_use(
    client_of: MakeClient, turn: Any, expected: str
) -> None:
    client = client_of([turn, "sorry"])
    reply = await client.generate("?", tools=[get_weather, broken])
    assert reply.text == "sorry"
    assert reply.results[0].error is not None
    assert expected in reply.results[0].error
    assert "hunter2" not in str(reply.messages)


@pytest.mark.no_page("an unknown name is an error of the page")
@pytest.mark.native  # in a text, an undeclared name is just text
async def test_a_call_of_an_unknown_tool_is_answered_with_the_known_ones(
    client_of: MakeClient,
) -> None:
    client = client_of([call("get_wether", city="Paris"), "sorry"])
    reply = await client.generate("?", tools=[get_weather])
    assert reply.results[0].error == "There is no tool 'get_wether'. Known: get_weather."
    assert reply.rounds[0].answers[0].outcome == "unknown_tool"


async def test_a_crash_is_logged_in_full_and_reported_without_internals(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await client_of([call("broken"), "sorry"]).generate("?", tools=[broken])
    assert "hunter2" in caplog.text
    assert reply.results[0].error == "broken failed with an internal error."


@pytest.mark.on_page
async def test_the_text_of_a_tool_error_reaches_the_model(client_of: MakeClient) -> None:
    def find(title: str) -> str:
        raise ToolError(f"no book {title!r}; try another title")

    client = client_of([call("find", title="X"), "sorry"])
    reply = await client.generate("?", tools=[find])
    assert reply.results[0].error == "no book 'X'; try another title"
    assert requests_of(client)[1].messages[-1].responses[0].text == (
        '{"error":"no book \'X\'; try another title"}'
    )


async def test_one_failure_does_not_affect_the_other_tools_of_the_round(
    client_of: MakeClient,
) -> None:
    client = client_of([calls(call("broken"), call("get_weather", city="Oslo")), "done"])
    reply = await client.generate("?", tools=[broken, get_weather])
    assert [r.output for r in reply.results] == [None, "sunny in Oslo"]


async def test_a_tool_that_raises_system_exit_only_fails(client_of: MakeClient) -> None:
    def leave() -> None:
        raise SystemExit(1)

    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    client = client_of([calls(call("leave"), call("cancel_itself")), "still here"])
    reply = await client.generate("?", tools=[leave, cancel_itself])
    assert reply.text == "still here"
    assert all(r.error for r in reply.results)


# Limits


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_after_the_last_round_one_request_without_tools_forces_an_answer(
    client_of: MakeClient, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of([call("get_weather", city="x")] * limit + [say("final")])
    events = await events_of(client, tools=[get_weather], max_rounds=limit)
    sent = requests_of(client)
    assert len(sent) == limit + 1
    assert sent[-1].tools == ()
    assert sent[-1].tool_choice.mode == "none"
    assert Status("Maximum tool execution rounds reached. Generating final response...") in [
        Status(e.message) for e in events if isinstance(e, Status)
    ]
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "max_rounds"
    assert "Max tool execution rounds reached" in caplog.text


async def test_five_rounds_is_the_default(client_of: MakeClient) -> None:
    client = client_of([call("get_weather", city="x")] * 5 + [say("final")])
    reply = await client.generate("?", tools=[get_weather])
    assert (len(reply.results), reply.text) == (5, "final")


@pytest.mark.no_page("an empty answer is an error of the page")
async def test_an_empty_forced_answer_is_replaced_by_a_text_that_reports_it(
    client_of: MakeClient,
) -> None:
    client = client_of([call("get_weather", city="x"), say("")])
    events = await events_of(client, tools=[get_weather], max_rounds=1)
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    reply = await (await client.runs())[0].result()
    assert "tools were switched off" in text
    assert reply.text == text
    assert reply.messages[-1].text == text


@pytest.mark.native  # without tools, no text is a call
async def test_calls_in_the_forced_answer_are_refused_not_run(client_of: MakeClient) -> None:
    ran: list[str] = []
    client = client_of([call("note", text="a"), call("note", text="b")])
    reply = await client.generate("?", tools=[_note(ran)], max_rounds=1)
    assert ran == ["a"]
    assert [r.error for r in reply.results] == [None, "Not run: this was the last turn of the run."]
    assert reply.stop_reason == "max_rounds"
    assert reply.messages[-2].role == "tool"


async def test_on_limit_error_raises_with_the_messages_so_far(client_of: MakeClient) -> None:
    client = client_of([call("get_weather", city="x")] * 3)
    with pytest.raises(RoundLimitExceeded) as caught:
        await client.generate("?", tools=[get_weather], max_rounds=2, on_limit="error")
    assert [m.role for m in caught.value.messages] == ["user"] + ["assistant", "tool"] * 2 + [
        "assistant"
    ]
    assert caught.value.calls[0].name == "get_weather"


async def test_on_limit_error_does_not_raise_if_the_model_answers_in_time(
    client_of: MakeClient,
) -> None:
    client = client_of([call("get_weather", city="x"), "done"])
    reply = await client.generate("?", tools=[get_weather], max_rounds=1, on_limit="error")
    assert (reply.text, reply.stop_reason) == ("done", "answer")


@pytest.mark.on_page
async def test_on_limit_return_calls_hands_the_last_calls_back(client_of: MakeClient) -> None:
    client = client_of([call("get_weather", city="x"), call("get_weather", city="y"), "done"])
    reply = await client.generate("?", tools=[get_weather], max_rounds=1, on_limit="return_calls")
    assert reply.stop_reason == "max_rounds"
    assert [c.arguments for c in reply.pending] == [{"city": "y"}]
    results = await client.execute(reply.pending)
    assert (await client.generate(reply.follow_up(results), tools=[get_weather])).text == "done"


async def test_a_limit_below_zero_is_refused(client_of: MakeClient) -> None:
    with pytest.raises(ValueError, match="max_rounds must be at least 0"):
        await client_of(["x"]).generate("?", max_rounds=-1)


# Tool choice


@pytest.mark.parametrize("choice", ["required", "get_weather"])
async def test_a_forced_call_is_forced_once(client_of: MakeClient, choice: str) -> None:
    client = client_of([call("get_weather", city="x"), "done"])
    await client.generate("?", tools=[get_weather], tool_choice=choice)
    first, second = requests_of(client)
    assert first.tool_choice.mode == "required"
    assert second.tool_choice.mode == "auto"


@pytest.mark.on_page
async def test_tool_choice_none_stays_none(client_of: MakeClient) -> None:
    client = client_of(["x"])
    await client.generate("?", tools=[get_weather], tool_choice="none")
    assert requests_of(client)[0].tool_choice.mode == "none"


@pytest.mark.native  # emulation reads no second call then
async def test_parallel_tool_calls_false_reaches_the_model_and_the_executor(
    client_of: MakeClient,
) -> None:
    running = 0

    async def alone(n: int) -> int:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1
        return n

    client = client_of([calls(*(call("alone", n=n) for n in range(4))), "done"])
    reply = await client.generate("?", tools=[alone], parallel_tool_calls=False)
    assert requests_of(client)[0].parallel_tool_calls is False
    assert [r.output for r in reply.results] == [0, 1, 2, 3]


async def test_an_empty_list_of_tools_offers_no_tools(client_of: MakeClient) -> None:
    client = client_of(["x"], tools=[get_weather])
    await client.generate("?", tools=[])
    assert requests_of(client)[0].tools == ()


# Repetition


async def test_a_call_that_keeps_failing_is_stopped_and_reported(
    client_of: MakeClient,
) -> None:
    ran: list[str] = []

    def flaky(city: str) -> str:
        ran.append(city)
        raise ToolError("no such city")

    script = [
        raw_call("flaky", '{"city": "X"}'),
        raw_call("flaky", '{"city":"X"}'),
        call("flaky", city="X"),
        call("flaky", city="X"),
        say("I give up."),
    ]
    client = client_of(script)
    reply = await client.generate("?", tools=[flaky], max_rounds=10)
    assert ran == ["X"] * 3
    assert reply.results[-1].error is not None
    assert "failed 3 times with the same arguments" in reply.results[-1].error
    assert (reply.text, reply.stop_reason) == ("I give up.", "repetition")
    assert requests_of(client)[-1].tools == ()


async def test_other_arguments_are_another_call(client_of: MakeClient) -> None:
    def flaky(n: int) -> int:
        if n < 5:
            raise ToolError("too small")
        return n

    client = client_of([*(call("flaky", n=n) for n in range(6)), "done"])
    reply = await client.generate("?", tools=[flaky], max_rounds=10)
    assert (reply.text, reply.stop_reason) == ("done", "answer")
    assert reply.results[-1].output == 5


# Odd ends of a turn


@pytest.mark.no_page("it shows no finish reason")
@pytest.mark.no_wire("arguments are an object there", "anthropic", "gemini")
async def test_a_truncated_turn_never_runs_its_calls(client_of: MakeClient) -> None:
    ran: list[str] = []
    cut_off = calls(call("note", text="a"), raw_call("note", '{"text": "b'), finish="length")
    client = client_of([cut_off, "shorter"])
    reply = await client.generate("?", tools=[_note(ran)])
    assert ran == []
    assert reply.text == "shorter"
    assert all("output limit" in (r.error or "") for r in reply.results)


@pytest.mark.no_page("it shows no finish reason")
async def test_a_truncated_answer_reports_it(client_of: MakeClient) -> None:
    reply = await client_of([say("The answer is", finish="length")]).generate("?")
    assert (reply.text, reply.stop_reason) == ("The answer is", "length")


@pytest.mark.no_page("it shows no finish reason")
@pytest.mark.parametrize(
    "finish",
    [
        "content_filter",
        pytest.param(
            "malformed_call",
            marks=pytest.mark.no_wire("only Gemini has it", "openai", "responses", "anthropic"),
        ),
    ],
)
async def test_a_withheld_turn_ends_the_run_without_effects(
    client_of: MakeClient, finish: str
) -> None:
    ran: list[str] = []
    client = client_of([calls(call("note", text="a"), finish=finish)])
    reply = await client.generate("?", tools=[_note(ran)])
    assert (reply.stop_reason, ran) == (finish, [])
    assert [m.role for m in reply.messages] == ["user", "assistant", "tool"]


# Usage, errors, logs


async def test_usage_is_summed_and_kept_per_round(client_of: MakeClient) -> None:
    first = calls(call("get_weather", city="x"), usage=Usage(10, 5, 15))
    client = client_of(lambda _: say("done", usage=Usage(20, 7, 27)) if _done(_) else first)
    blocking = await client.generate("?", tools=[get_weather])
    async with client.stream("?", tools=[get_weather]) as stream:
        async for _ in stream:
            pass
    for reply in (blocking, stream.reply):
        assert reply.usage == Usage(30, 12, 42)
        assert [r.usage.total_tokens for r in reply.rounds] == [15, 27]


@pytest.mark.no_page("it shows no status")
async def test_a_model_that_fails_raises_its_error(client_of: MakeClient) -> None:
    client = client_of([refuse(401, "bad key")])
    with pytest.raises(ModelError, match="bad key") as caught:
        await client.generate("?")
    assert caught.value.status == 401


@pytest.mark.on_page
async def test_a_failing_follow_up_does_not_run_the_first_rounds_tools_again(
    client_of: MakeClient,
) -> None:
    ran: list[str] = []
    client = client_of([call("note", text="a"), refuse(500, "down")])
    with pytest.raises(ModelError, match="down"):
        await client.generate("?", tools=[_note(ran)])
    assert ran == ["a"]


async def test_log_lines_tell_the_rounds_without_their_content(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass")
    client = client_of([call("get_weather", city="secret-city"), "done"])
    await client.generate("?", tools=[get_weather])
    records = {r.getMessage(): r.__dict__ for r in caplog.records}
    assert records["Tool execution required"]["round"] == 1
    assert records["Tool execution required"]["tool_count"] == 1
    assert records["Tool call parsed"]["tool"] == "get_weather"
    assert records["Tool executed successfully"]["tool"] == "get_weather"
    assert "secret-city" not in str([r.__dict__ for r in caplog.records])


async def test_debug_logs_show_the_arguments_and_streams_report_it(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "windlass")
    client = client_of([call("get_weather", city="Paris"), "done"])
    await events_of(client, tools=[get_weather])
    records = {r.getMessage(): r.__dict__ for r in caplog.records}
    assert "Tool execution required in stream" in records
    assert records["Tool call parsed"]["arguments"] == {"city": "Paris"}


# Client tools and server tools


@pytest.mark.on_page
async def test_a_declared_tool_without_a_function_is_handed_back(client_of: MakeClient) -> None:
    theirs = FunctionDeclaration("theirs", "Runs at the caller's.")
    client = client_of(
        [calls(call("theirs", id="a"), call("get_weather", city="x", id="b")), "done"]
    )
    reply = await client.generate("?", tools=[theirs, get_weather])
    assert reply.stop_reason == "calls"
    assert [c.id for c in reply.pending] == ["a"]
    assert [r.id for r in reply.results] == ["b"]
    follow_up = reply.follow_up([FunctionResponse("theirs", {"output": 1}, "a")])
    assert [r.id for r in follow_up[-1].responses] == ["a", "b"]
    assert (await client.generate(follow_up, tools=[theirs, get_weather])).text == "done"


async def test_a_follow_up_needs_a_result_for_every_pending_call(client_of: MakeClient) -> None:
    client = client_of([calls(call("get_weather", city="x", id="a"))])
    reply = await client.generate("?", tools=[get_weather], execute_tools=False)
    with pytest.raises(ValueError, match="missing results for the calls: a"):
        reply.follow_up([])
    with pytest.raises(ValueError, match="results without a pending call: b"):
        reply.follow_up({"a": 1, "b": 2})
    assert reply.follow_up({"a": 1})[-1] == Message.tool(
        [FunctionResponse("get_weather", {"output": 1}, "a")]
    )


async def test_manual_control_returns_calls_and_continues_with_results(
    client_of: MakeClient,
) -> None:
    client = client_of([calls(call("get_weather", city="Rome"), call("get_weather")), "done"])
    turn = await client.generate("?", tools=[get_weather], execute_tools=False)
    assert (turn.stop_reason, len(turn.calls)) == ("calls", 2)
    results = await client.execute(turn.calls)
    assert results[0].output == "sunny in Rome"
    assert "city: required" in (results[1].error or "")
    reply = await client.generate(turn.follow_up(results), tools=[get_weather])
    assert reply.text == "done"


# Big results


async def test_the_model_gets_the_head_and_tail_of_a_big_result_and_the_record_all(
    client_of: MakeClient,
) -> None:
    big = "a" * 700 + "b" * 9_000 + "c" * 300
    client = client_of([call("read"), "done"])

    def read() -> str:
        return big

    reply = await client.generate("?", tools=[read], max_result_chars=1_000)
    copy = requests_of(client)[1].messages[-1].responses[0].output
    assert reply.results[0].output == big
    assert copy.startswith("a" * 700)
    assert copy.endswith("c" * 250)
    assert "of 10000 characters left out" in copy
    assert len(copy) < 1_100


@pytest.mark.on_page
@pytest.mark.no_wire("arguments are an object there", "gemini")
async def test_every_call_is_answered_exactly_once(client_of: MakeClient) -> None:
    turn = calls(
        call("get_weather", city="a", id="1"),
        call("get_weather", id="2"),
        raw_call("get_weather", "[", id="3"),
        call("broken", id="4"),
    )
    events = await events_of(client_of([turn, "done"]), tools=[get_weather, broken])
    answered = [e.response.id for e in events if isinstance(e, ToolRunEnded)]
    assert sorted(answered) == ["1", "2", "3", "4"]


def _done(request: Any) -> bool:
    return request.messages[-1].role == "tool"


def _note(ran: list[str]) -> Any:
    @tool(name="note")
    def note(text: str) -> str:
        ran.append(text)
        return "noted"

    return note
