"""The official `openai` SDK, unchanged, against `/v1/responses` of a real server."""

from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel
from tests.support.serving import Serving, config_of
from tests.support.talking import Scripts

from windlass import tool
from windlass.gateway.config import ModelConfig, RunsConfig, ServerConfig
from windlass.testing import Gate, ScriptedModel, call, interrupt, refuse, say, slow, think

pytestmark = pytest.mark.sdk


class Weather(BaseModel):
    city: str
    sky: Literal["clear", "cloudy"]


@tool
def count_letters(word: str) -> int:
    """How many letters a word has."""
    return len(word)


WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def client(scripts: Scripts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    config = config_of(
        ModelConfig(name="m", target="scripted/m", tools=("count_letters",)),
        server=ServerConfig(access_log=False),
        runs=RunsConfig(path=str(tmp_path_factory.mktemp("runs") / "runs.db")),
    )
    models = {"m": ScriptedModel(scripts)}
    with (
        Serving(config, models=models, tools=[count_letters]) as serving,
        OpenAI(base_url=serving.base_url, api_key="none", max_retries=0, timeout=20) as client,
    ):
        yield client


def test_create_and_retrieve(client: OpenAI, scripts: Scripts) -> None:
    prompt = scripts.prompt(call("count_letters", word="four"), "Four.")
    response = client.responses.create(model="m", input=prompt, metadata={"a": "b"})
    assert (response.output_text, response.status) == ("Four.", "completed")
    assert response.metadata == {"a": "b"}
    assert response.usage is not None
    assert response.usage.total_tokens == 30
    assert client.responses.retrieve(response.id) == response
    items = client.responses.input_items.list(response.id)
    assert [item.to_dict()["content"][0]["text"] for item in items] == [prompt]  # type: ignore[index]
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


@pytest.mark.parametrize(
    "steps",
    [
        ("Hello there, you.",),
        (think("Well.", "Hello."),),
        (call("count_letters", word="four"), "Four."),
        (call("get_weather", city="Paris"),),
    ],
    ids=["text", "reasoning", "server tool", "client tool"],
)
def test_the_accumulator_of_a_stream_ends_with_the_response(
    client: OpenAI, scripts: Scripts, steps: tuple[Any, ...]
) -> None:
    prompt = scripts.prompt(*steps)
    with client.responses.stream(model="m", input=prompt, tools=[WEATHER]) as stream:
        numbers = [event.sequence_number for event in stream]
        final = stream.get_final_response()
    assert numbers == list(range(len(numbers)))
    stored = client.responses.retrieve(final.id)
    assert final.output_text == stored.output_text
    assert [item.to_dict(exclude_none=True) for item in stored.output] == [
        {k: v for k, v in item.to_dict(exclude_none=True).items() if k != "parsed_arguments"}
        for item in final.output
    ]


def test_a_stream_resumes_with_the_identical_events(client: OpenAI, scripts: Scripts) -> None:
    prompt = scripts.prompt(call("count_letters", word="four"), "That is four.")
    whole = list(client.responses.create(model="m", input=prompt, stream=True))
    created: Any = whole[0]
    for number in range(len(whole)):
        rest = client.responses.retrieve(created.response.id, stream=True, starting_after=number)
        assert list(rest) == whole[number + 1 :]


def test_a_background_response_is_followed_and_cancelled(client: OpenAI, scripts: Scripts) -> None:
    gate = Gate()
    prompt = scripts.prompt(slow(say("One two three."), gate, after=1))
    response = client.responses.create(model="m", input=prompt, background=True)
    assert response.status in ("queued", "in_progress")
    cancelled = client.responses.cancel(response.id)
    gate.open()
    assert cancelled.status == "cancelled"
    assert client.responses.retrieve(response.id).status == "cancelled"


def test_an_answer_is_parsed_into_a_model(client: OpenAI, scripts: Scripts) -> None:
    prompt = scripts.prompt(say('{"city": "Paris", "sky": "clear"}'))
    response = client.responses.parse(model="m", input=prompt, text_format=Weather)
    assert response.output_parsed == Weather(city="Paris", sky="clear")


def test_the_result_of_a_function_continues_the_response(client: OpenAI, scripts: Scripts) -> None:
    prompt = scripts.prompt(call("get_weather", city="Paris"), "It rains.")
    first = client.responses.create(model="m", input=prompt, tools=[WEATHER])
    made: Any = first.output[-1]
    result: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "rain"}
    second = client.responses.create(
        model="m", input=[result], tools=[WEATHER], previous_response_id=first.id
    )
    assert second.output_text == "It rains."


def test_errors_have_the_types_of_the_sdk(client: OpenAI, scripts: Scripts) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="m", input="Hi", previous_response_id="resp_1")
    assert refused.value.code == "previous_response_not_found"
    prompt = scripts.prompt(refuse(429, "Slow down.", retry_after=1))
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="m", input=prompt)


def test_a_failure_in_the_middle_of_a_stream_raises_an_error_of_the_sdk(
    client: OpenAI, scripts: Scripts
) -> None:
    prompt = scripts.prompt(interrupt(say("One two three."), 2, error=refuse(500, "Broke.")))
    with pytest.raises(openai.APIError, match="Broke"):
        list(client.responses.create(model="m", input=prompt, stream=True))
