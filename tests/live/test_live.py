"""Automatic tool execution on the real services: whole, streamed, limits, several calls, errors."""

from typing import Any

import pytest

from windlass import (
    Client,
    FunctionDeclaration,
    Message,
    ModelError,
    Part,
    RoundLimitExceeded,
    Schema,
    ToolError,
)

# The services are sometimes slow, and a model's wording varies.
pytestmark = pytest.mark.timeout(180)

WEATHER = FunctionDeclaration(
    "get_weather",
    "Gets the weather of a city.",
    Schema(
        type="OBJECT",
        properties={"city": Schema(type="STRING", description="The city's name.")},
        required=["city"],
    ),
)


def get_weather(city: str) -> dict[str, Any]:
    """Gets the weather of a city."""
    return {"city": city, "celsius": 17, "sky": "hail"}


def test_a_tool_is_executed_and_its_result_is_in_the_answer(client: Client) -> None:
    reply = client.generate("What is the weather in Paris? Use the tool.", tools=[get_weather])
    assert reply.calls[0].name == "get_weather"
    assert "17" in reply.text or "hail" in reply.text.lower()
    assert (reply.stop_reason, reply.mode) == ("answer", "native")
    assert reply.usage.total_tokens > 0


def test_a_stream_has_the_same_answer_in_pieces(client: Client) -> None:
    with client.stream("What is the weather in Oslo? Use the tool.", tools=[get_weather]) as stream:
        text = "".join(event.text for event in stream if event.type == "content")  # pyright: ignore[reportAttributeAccessIssue]
    assert stream.reply.text
    assert text.endswith(stream.reply.text)


def test_several_calls_are_answered(client: Client) -> None:
    prompt = "Compare the weather in Paris, Rome and Oslo. Use the tool for each city."
    reply = client.generate(prompt, tools=[get_weather])
    assert len(reply.results) >= 3


def test_the_limit_of_rounds_is_an_error_if_that_is_asked_for(client: Client) -> None:
    with pytest.raises(RoundLimitExceeded):
        client.generate(
            "What is the weather in Paris?",
            tools=[get_weather],
            tool_choice="get_weather",
            max_rounds=0,
            on_limit="error",
        )


def test_an_error_of_a_tool_reaches_the_model(client: Client) -> None:
    def query(sql: str) -> str:
        """Queries the database."""
        raise ToolError("the database is closed until Monday")

    reply = client.generate("How many users are there? Use the tool once.", tools=[query])
    assert reply.results[0].error == "the database is closed until Monday"
    assert reply.text


def test_a_history_with_a_response_without_an_id_is_answered(client: Client) -> None:
    prompt = "What is the weather in Boston?"
    turn = client.generate(prompt, tools=[WEATHER], tool_choice="get_weather")
    (asked, *_) = turn.pending
    history = [
        Message.user(prompt),
        turn.messages[-1],
        Message.user(
            *(Part.from_function_response(c.name, {"result": "22 degrees"}) for c in turn.pending)
        ),
    ]
    assert asked.name == "get_weather"
    assert "22" in client.generate(history, tools=[WEATHER]).text


def test_emulated_calling_works_on_the_same_model(client: Client) -> None:
    reply = client.generate(
        "What is the weather in Paris? Use the tool.", tools=[get_weather], mode="emulated"
    )
    assert (reply.mode, reply.calls[0].name) == ("emulated", "get_weather")


def test_a_model_that_does_not_exist_is_an_error(client: Client) -> None:
    provider = client.model.name.partition("/")[0]
    with Client(f"{provider}/no-such-model") as wrong, pytest.raises(ModelError) as caught:
        wrong.generate("Hi")
    assert caught.value.status in (400, 404)
