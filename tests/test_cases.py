"""The cases of the systems in docs/names.md, by name, on the OpenAI and the Gemini wire."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from windlass import (
    Client,
    FunctionDeclaration,
    FunctionResponse,
    GoogleSearch,
    Message,
    Part,
    RoundLimitExceeded,
    RunEnded,
    Status,
    TextDelta,
    ToolAnswer,
    ToolError,
    ToolExecutor,
    ToolJob,
    ToolRegistry,
    tool,
)
from windlass.testing import FakeGemini, FakeOpenAI, call, calls, refuse, say, tool_results

Connect = Callable[..., Client]


@pytest.fixture(params=["openai", "gemini"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A client over the real wire of a fake service that follows the script."""
    opened: list[Any] = []

    def make(script: Any, **options: Any) -> Client:
        fake = (FakeOpenAI if request.param == "openai" else FakeGemini)(script)
        opened.append(fake.__enter__())
        client = Client(f"{request.param}/m", base_url=fake.base_url, api_key="k", **options)
        opened.append(client.__enter__())
        client.fake = fake  # pyright: ignore[reportAttributeAccessIssue]
        return client

    yield make
    for each in reversed(opened):
        each.__exit__(None, None, None)


DECLARATION = FunctionDeclaration(
    "get_weather",
    "Gets weather for a location",
    {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
)


def get_weather(location: str) -> dict[str, Any]:
    return {"location": location, "degrees": 18}


# gemini_ex


def test_tool_registration_and_standard_automatic_execution(connect: Connect) -> None:
    registry = ToolRegistry()
    registry.register(DECLARATION, get_weather)
    client = connect([call("get_weather", location="San Francisco"), "18 degrees."])
    reply = client.generate("What's the weather in San Francisco?", tools=[registry], max_rounds=5)
    assert reply.text == "18 degrees."
    assert reply.results[0].output == {"location": "San Francisco", "degrees": 18}


def test_streaming_automatic_execution_for_subscribers(connect: Connect) -> None:
    client = connect([call("get_weather", location="Tokyo"), "18 degrees in Tokyo."])
    run = client.start("What's the weather in Tokyo?", tools=[get_weather])
    first, second = list(client.subscribe(run.id)), list(client.subscribe(run.id))
    assert first == second
    text = "".join(e.text for e in first if isinstance(e, TextDelta))
    assert text == "18 degrees in Tokyo."
    assert isinstance(first[-1], RunEnded)


def test_a_stream_error_reaches_the_subscriber(connect: Connect) -> None:
    client = connect([refuse(400, "no such model")])
    run = client.start("?")
    end = list(client.subscribe(run.id))[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "error"
    assert "no such model" in (end.error or "")


def test_turn_limit(connect: Connect) -> None:
    client = connect([call("get_weather", location="x")] * 3)
    with pytest.raises(RoundLimitExceeded):
        client.generate("?", tools=[get_weather], max_rounds=2, on_limit="error")


def test_multiple_tool_calls_in_sequence(connect: Connect) -> None:
    client = connect(
        [call("get_weather", location="Paris"), call("get_weather", location="Rome"), "Both 18."]
    )
    reply = client.generate("?", tools=[get_weather])
    assert [c.arguments for c in reply.calls] == [{"location": "Paris"}, {"location": "Rome"}]


def test_chat_history_is_built_by_turns(connect: Connect) -> None:
    client = connect(["Hello.", "Yes."])
    chat = client.chat()
    chat.send("Hi")
    chat.send("Still there?")
    assert [m.role for m in chat.messages] == ["user", "assistant", "user", "assistant"]


def test_phases(connect: Connect) -> None:
    client = connect([call("look"), "done"])
    seen: list[str] = []

    def look() -> str:
        seen.append(client.runs()[0].phase)
        return "ok"

    run = client.start("?", tools=[look])
    run.result()
    assert seen == ["executing_tools"]


# AiService


def test_send_request_returns_the_final_response(connect: Connect) -> None:
    client = connect([call("get_weather", location="Paris"), "The weather in Paris is 18°C"])
    assert client.generate("What is the weather in Paris?", tools=[get_weather]).text == (
        "The weather in Paris is 18°C"
    )


def test_multi_round_tool_calling(connect: Connect) -> None:
    def compare_cities(a: str, b: str) -> str:
        return f"{a} equals {b}"

    client = connect(
        [
            call("get_weather", location="Paris"),
            call("get_weather", location="London"),
            call("compare_cities", a="Paris", b="London"),
            "They are equal.",
        ]
    )
    reply = client.generate("Compare", tools=[get_weather, compare_cities])
    assert reply.text == "They are equal."
    assert len(reply.rounds) == 4


def test_max_rounds_disables_tools_for_one_final_request(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    cities = ["Paris", "London", "Berlin"]
    client = connect([*(call("get_weather", location=city) for city in cities), "All 18."])
    with client.stream("?", tools=[get_weather], max_rounds=3) as stream:
        statuses = [e.message for e in stream if isinstance(e, Status)]
    assert statuses == [
        *["Executing get_weather..."] * 3,
        "Maximum tool execution rounds reached. Generating final response...",
    ]
    assert "Max tool execution rounds reached" in caplog.text
    assert stream.reply.text == "All 18."
    assert "tools" not in client.fake.requests[-1].body  # pyright: ignore[reportAttributeAccessIssue]


def test_tool_errors_are_sent_back_as_results(connect: Connect) -> None:
    def query() -> str:
        raise ToolError("Database connection failed")

    def answer(body: Any) -> Any:
        results = tool_results(body)
        return say(f"I read: {results[0].text}") if results else call("query")

    text = connect(answer).generate("?", tools=[query]).text
    assert text == 'I read: {"error":"Database connection failed"}'


def test_test_tool_with_its_log_lines(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    def test_tool(message: str, count: int = 1) -> str:
        return " ".join([message] * count)

    caplog.set_level(logging.INFO, "windlass")
    client = connect([call("test_tool", message="Hello", count=2), "Hello Hello"])
    reply = client.generate("Please use test_tool", tools=[test_tool])
    assert reply.results[0].output == "Hello Hello"
    lines = [r.getMessage() for r in caplog.records if r.name == "windlass.loop"]
    assert lines == [
        "Tool execution required",
        "Tool call parsed",
        "test_tool executed",
        "Tool executed successfully",
    ]


def test_done_is_masked_until_the_whole_run_is_over(connect: Connect) -> None:
    client = connect([call("get_weather", location="x"), "done"])
    with client.stream("?", tools=[get_weather]) as stream:
        flags = [event.done for event in stream]
    assert flags.count(True) == 1
    assert flags[-1] is True


def test_types_tell_content_status_calls_and_results_apart(connect: Connect) -> None:
    client = connect([calls(call("get_weather", location="x"), text="Hm."), "done"])
    with client.stream("?", tools=[get_weather]) as stream:
        types = {event.type for event in stream}
    assert types == {"content", "status", "tool_call", "tool_result", "control"}


def test_manual_control(connect: Connect) -> None:
    client = connect([call("get_weather", location="x"), "done"])
    turn = client.generate("?", tools=[get_weather], execute_tools=False)
    assert turn.pending
    follow_up = turn.follow_up(client.execute(turn.calls))
    assert client.generate(follow_up, tools=[get_weather]).text == "done"


def test_custom_tool_execution(connect: Connect) -> None:
    seen: list[str] = []

    class Custom(ToolExecutor):
        async def execute(self, job: ToolJob) -> ToolAnswer:
            seen.append(job.call.name)
            return await super().execute(job)

    client = connect([call("get_weather", location="x"), "done"], executor=Custom())
    client.generate("?", tools=[get_weather])
    assert seen == ["get_weather"]


def test_an_empty_list_of_enabled_tools_means_none(connect: Connect) -> None:
    client = connect(["hi"])
    client.generate("?", tools=[])
    assert "tools" not in client.fake.requests[0].body  # pyright: ignore[reportAttributeAccessIssue]


# Gemini.Types.Tooling


def test_the_workflow_of_declaration_call_execution_and_response(connect: Connect) -> None:
    prompt = "What's the weather like in Boston?"
    client = connect([call("get_weather", location="Boston, MA"), "22°C and windy."])
    first = client.generate(prompt, tools=[{"functionDeclarations": [_as_dict(DECLARATION)]}])
    asked = first.pending[0]
    assert (asked.name, asked.arguments) == ("get_weather", {"location": "Boston, MA"})
    result = {"temperature": "22", "forecast": "windy"}
    history = [
        Message.user(prompt),
        Message("assistant", first.messages[-1].parts),
        Message.tool([Part.from_function_response(asked.name, {"result": result}, id=asked.id)]),
    ]
    assert client.generate(history).text == "22°C and windy."


def test_google_search_is_a_marker_beside_functions() -> None:
    with FakeGemini(["found"]) as fake:
        client = Client("gemini/m", base_url=fake.base_url, api_key="k")
        client.generate("?", tools=[GoogleSearch(), get_weather])
        client.close()
    tools = fake.requests[0].body["tools"]
    assert any("googleSearch" in each for each in tools)
    assert any("functionDeclarations" in each for each in tools)


@tool
def roll(sides: int = 6) -> int:
    """Rolls a die."""
    return sides


def test_a_response_is_matched_to_its_call_by_name_and_id(connect: Connect) -> None:
    client = connect([calls(call("roll", sides=4), call("roll", sides=8)), "done"])
    reply = client.generate("?", tools=[roll])
    assert [type(r) for r in reply.results] == [FunctionResponse] * 2
    assert [r.id for r in reply.results] == [c.id for c in reply.calls]
    assert [r.output for r in reply.results] == [4, 8]


def _as_dict(declaration: FunctionDeclaration) -> dict[str, Any]:
    return {
        "name": declaration.name,
        "description": declaration.description,
        "parameters": declaration.parameters,
    }
