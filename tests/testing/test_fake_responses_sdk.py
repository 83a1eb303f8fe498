"""The fake Responses service as OpenAI's own SDK sees it."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel
from tests.support.response_streams import OFFICIAL, check_order

from windlass import Opaque
from windlass.testing import FakeResponses, Turn, call, calls, say, think

pytestmark = pytest.mark.sdk

TOOL: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


class City(BaseModel):
    name: str


def answer(body: dict[str, Any]) -> Any:
    asked = str(body["input"])
    if "json" in asked:
        return '{"name": "Rome"}'
    if "refuse" in asked:
        return Turn(parts=(Opaque("responses", {"type": "refusal", "refusal": "No."}),))
    if "cut" in asked:
        return say("Once", finish="length")
    if "call" in asked and "function_call_output" not in asked:
        return think("Hmm.", calls(call("look", at="x"), text="Wait."))
    return "Hello there."


@pytest.fixture
def fake() -> Iterator[FakeResponses]:
    with FakeResponses(answer, api_key="k") as fake:
        yield fake


@pytest.fixture
def client(fake: FakeResponses) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=fake.base_url, api_key="k", max_retries=0) as client:
        yield client


def test_create(client: openai.OpenAI) -> None:
    response = client.responses.create(model="m", input="Hi")
    assert response.output_text == "Hello there."
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.total_tokens == 15


@pytest.mark.parametrize("prompt", ["Hi", "call", "refuse"])
def test_a_stream_is_what_the_sdk_expects(client: openai.OpenAI, prompt: str) -> None:
    with client.responses.stream(model="m", input=prompt, tools=[TOOL]) as stream:
        events: list[ResponseStreamEvent] = list(stream)
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(len(events)))
    raw = client.responses.create(model="m", input=prompt, tools=[TOOL], stream=True)
    plain = [event.to_dict() for event in raw]
    for event in plain:
        OFFICIAL[str(event["type"])].model_validate(event)
    check_order(plain)
    last: Any = plain[-1]["response"]
    assert [item.type for item in final.output] == [item["type"] for item in last["output"]]


def test_calls_are_answered_with_the_whole_history(client: openai.OpenAI) -> None:
    include: Any = ["reasoning.encrypted_content"]
    history: list[Any] = [{"role": "user", "content": "call"}]
    first = client.responses.create(
        model="m", input=history, tools=[TOOL], store=False, include=include
    )
    history += [item.to_dict() for item in first.output]
    made = first.output[-1]
    assert made.type == "function_call"
    history.append({"type": "function_call_output", "call_id": made.call_id, "output": "a cat"})
    second = client.responses.create(model="m", input=history, tools=[TOOL], store=False)
    assert second.output_text == "Hello there."


def test_calls_are_answered_after_a_stored_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model="m", input="call", tools=[TOOL])
    made = first.output[-1]
    assert made.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "a cat"}
    second = client.responses.create(model="m", input=[result], previous_response_id=first.id)
    assert second.output_text == "Hello there."


def test_structured_output_is_parsed(client: openai.OpenAI) -> None:
    response = client.responses.parse(model="m", input="json", text_format=City)
    assert response.output_parsed == City(name="Rome")


def test_a_cut_response_is_incomplete(client: openai.OpenAI) -> None:
    response = client.responses.create(model="m", input="cut")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"input": None}, "Missing required parameter: 'input'"),
        ({"input": []}, "Invalid 'input': empty array"),
        ({"input": [{"type": "odd"}]}, "Invalid value: 'odd'"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "Invalid value: 'wizard'"),
        ({"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "'text'"),
        ({"input": [CALL]}, "No tool output found for function call c1"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
            "No tool call found for function call output with call_id c9",
        ),
        ({"input": [REASONING]}, "without its required following item"),
        (
            {
                "input": [
                    {**REASONING, "encrypted_content": None},
                    {"role": "assistant", "content": "x"},
                ],
                "store": False,
            },
            "Items are not persisted",
        ),
        ({"messages": []}, "Unknown parameter: 'messages'"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "'tools[0].name'"),
        ({"tools": [{"type": "odd"}]}, "Invalid value: 'odd'"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "x"}}, "not found in"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "'text.format.name'"),
        ({"previous_response_id": "resp_0"}, "Previous response with id 'resp_0' not found"),
        ({"previous_response_id": "a", "conversation": "b"}, "Mutually exclusive"),
    ],
)
def test_a_request_that_openai_refuses_is_refused(
    client: openai.OpenAI, fields: dict[str, Any], said: str
) -> None:
    body = {"model": "m", "input": "x", **fields}
    with pytest.raises(openai.APIStatusError) as caught:
        client.post("/responses", body=body, cast_to=object)
    assert said in str(caught.value)
    assert caught.value.status_code in (400, 404)


def test_a_wrong_key_is_refused(fake: FakeResponses) -> None:
    client = openai.OpenAI(base_url=fake.base_url, api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        client.responses.create(model="m", input="x")
