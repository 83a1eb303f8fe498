"""The fake of Anthropic, with Anthropic's own SDK as its client."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from tests.testing.helpers import turns, unknown_fields

from windlass.content import FunctionCall, Usage
from windlass.testing import FakeAnthropic, Turn, calls, cut, interrupt, refuse, say, think
from windlass.testing import call as calling
from windlass.testing.anthropic_rules import signature_of

pytestmark = pytest.mark.sdk

HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOL: Any = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
ASKED: Any = {"model": "claude-fake", "max_tokens": 100, "messages": HELLO}


class Script:
    def __init__(self) -> None:
        self.step: Any = "Hi"

    def __call__(self, body: dict[str, Any]) -> Any:
        return self.step


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def fake(script: Script) -> Iterator[FakeAnthropic]:
    with FakeAnthropic(script, api_key="k") as fake:
        yield fake


@pytest.fixture(scope="module")
def client(fake: FakeAnthropic) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="k", base_url=fake.base_url, max_retries=0) as client:
        yield client


def test_a_message_has_only_fields_that_the_sdk_knows(
    client: anthropic.Anthropic, script: Script
) -> None:
    script.step = think("Hm.", calls(calling("f", a=1), text="Yes.", usage=Usage(10, 5, 15, 3, 2)))
    message = client.messages.create(**ASKED, tools=[TOOL])
    assert list(unknown_fields(message)) == []
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.stop_reason == "tool_use"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (7, 3)
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens == 2
    assert message._request_id


def test_a_stream_has_only_fields_that_the_sdk_knows(
    client: anthropic.Anthropic, script: Script
) -> None:
    script.step = think("Hm. Well.", calls(calling("f", a="two words"), text="Yes it is."))
    with client.messages.stream(**ASKED, tools=[TOOL]) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert [field for event in events for field in unknown_fields(event)] == []
    thinking, text, call = final.content
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("Hm. Well.", signature_of("Hm. Well."))
    assert text.type == "text"
    assert text.text == "Yes it is."
    assert call.type == "tool_use"
    assert call.input == {"a": "two words"}


@given(turns())
@settings(max_examples=25)
def test_the_sdk_reads_the_same_turn_from_a_stream_and_a_body(
    client: anthropic.Anthropic, script: Script, turn: Turn
) -> None:
    script.step = turn
    whole = client.messages.create(**ASKED)
    with client.messages.stream(**ASKED) as stream:
        streamed = stream.get_final_message()
    shown = [[block.to_dict() for block in message.content] for message in (whole, streamed)]
    for block in (block for blocks in shown for block in blocks):
        block.pop("parsed_output", None)
    assert shown[0] == shown[1]
    assert whole.stop_reason == streamed.stop_reason
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    made = [block for block in whole.content if block.type == "tool_use"]
    assert [(block.id, block.name) for block in made] == [(c.id, c.name) for c in turn.calls]


def test_a_conversation_with_tools_and_thoughts(
    client: anthropic.Anthropic, script: Script
) -> None:
    script.step = think("Hm.", calls(calling("f")))
    first = client.messages.create(**ASKED, tools=[TOOL])
    call_id = next(block.id for block in first.content if block.type == "tool_use")
    result: Any = {"type": "tool_result", "tool_use_id": call_id, "content": "22"}
    history = [*HELLO, first.to_param(), {"role": "user", "content": [result]}]
    script.step = "Warm."
    again = client.messages.create(**{**ASKED, "messages": history}, tools=[TOOL])
    assert again.content[0].to_dict()["text"] == "Warm."
    changed: Any = first.to_param()
    changed["content"][0].thinking = "Hm?"
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking`"):
        client.messages.create(**{**ASKED, "messages": [*HELLO, changed, history[2]]})


@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.APIStatusError, "overloaded_error"),
    ],
)
def test_errors(
    client: anthropic.Anthropic, script: Script, status: int, raised: Any, kind: str
) -> None:
    script.step = refuse(status, "No.", retry_after=3)
    with pytest.raises(raised) as seen:
        client.messages.create(**ASKED)
    assert (seen.value.status_code, seen.value.type) == (status, kind)
    assert seen.value.response.headers["retry-after"] == "3"


def test_an_error_in_a_stream(client: anthropic.Anthropic, script: Script) -> None:
    script.step = interrupt("One two three", after=2, error=refuse(529, "Busy."))
    heard: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError, match="Busy"),
        client.messages.stream(**ASKED) as stream,
    ):
        heard += stream.text_stream
    script.step = cut("One two three", after=2)
    with (
        pytest.raises(Exception, match=r"peer closed|incomplete"),
        client.messages.stream(**ASKED) as stream,
    ):
        heard = list(stream.text_stream)


def test_keys_models_and_counts(client: anthropic.Anthropic, fake: FakeAnthropic) -> None:
    assert [model.id for model in client.models.list()] == ["claude-fake"]
    assert client.models.retrieve("claude-fake").display_name == "claude-fake"
    counted = client.messages.count_tokens(model="claude-fake", messages=HELLO)
    assert counted.input_tokens > 10
    other = anthropic.Anthropic(api_key="wrong", base_url=fake.base_url, max_retries=0)
    with other, pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        other.messages.create(**ASKED)


def test_known_models_only() -> None:
    with FakeAnthropic("Hi", models=["claude-a"]) as fake:
        client = anthropic.Anthropic(api_key="k", base_url=fake.base_url, max_retries=0)
        with client, pytest.raises(anthropic.NotFoundError, match="model: claude-b"):
            client.messages.create(**{**ASKED, "model": "claude-b"})


def test_malformed_arguments_only_in_a_stream(client: anthropic.Anthropic, script: Script) -> None:
    script.step = Turn(calls=(FunctionCall("f", '{"a', "toolu_1"),))
    with pytest.raises(anthropic.BadRequestError, match="cannot have malformed arguments"):
        client.messages.create(**ASKED)


def test_stop_reasons_are_anthropics(client: anthropic.Anthropic, script: Script) -> None:
    for finish, reason in (
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("pause_turn", "pause_turn"),
    ):
        script.step = say("x", finish=finish)
        assert client.messages.create(**ASKED).stop_reason == reason
