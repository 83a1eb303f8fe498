"""The official `anthropic` SDK, unchanged, against a gateway on a real port."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import beta_tool
from pydantic import BaseModel
from tests.support.messages_gateway import lookup
from tests.support.serving import Serving, config_of
from tests.support.talking import Scripts

from windlass.gateway.config import KeyConfig, ModelConfig
from windlass.gateway.config.keys import new_key
from windlass.testing import ScriptedModel, call, calls, cut, refuse, say, think

pytestmark = pytest.mark.sdk

KEY, HASH = new_key()
SERVED = ModelConfig(
    name="m",
    target="scripted/model",
    tools=("lookup",),
    aliases=("claude-*", "claude-sonnet-5"),
)


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def serving(scripts: Scripts) -> Iterator[Serving]:
    config = config_of(SERVED, keys=(KeyConfig(name="web", hash=HASH),))
    with Serving(config, models={"m": ScriptedModel(scripts)}, tools=[lookup]) as serving:
        yield serving


@pytest.fixture(params=["api_key", "auth_token"])
def client(serving: Serving, request: pytest.FixtureRequest) -> Iterator[anthropic.Anthropic]:
    options: dict[str, Any] = {request.param: KEY}
    with anthropic.Anthropic(base_url=serving.root_url, max_retries=0, **options) as client:
        yield client


def asking(prompt: str, **fields: Any) -> Any:
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": prompt}],
        **fields,
    }


def test_a_message(client: anthropic.Anthropic, scripts: Scripts) -> None:
    prompt = scripts.prompt(think("Hm.", call("lookup", city="Rome")), "Sunny.")
    message = client.messages.create(**asking(prompt))
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens == 20
    assert (message._request_id or "").startswith("req_")


def test_a_stream_equals_the_message(client: anthropic.Anthropic, scripts: Scripts) -> None:
    steps = [calls(call("lookup", city="Rome"), text="Looking."), think("Hm.", "Sunny, warm.")]
    whole: Any = client.messages.create(**asking(scripts.prompt(*steps)))
    with client.messages.stream(**asking(scripts.prompt(*steps))) as stream:
        text = "".join(stream.text_stream)
        final: Any = stream.get_final_message()
    assert text == "Looking.Sunny, warm."
    assert [block.type for block in final.content] == [block.type for block in whole.content]
    assert final.content[0].text == whole.content[0].text == "Looking."
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_server_tool_calls_are_blocks_of_the_mcp_connector(
    client: anthropic.Anthropic, scripts: Scripts
) -> None:
    prompt = scripts.prompt(call("lookup", city="Rome"), "Sunny.")
    with client.beta.messages.stream(**asking(prompt), betas=["mcp-client-2025-11-20"]) as stream:
        final: Any = stream.get_final_message()
    used, result, text = final.content
    assert (used.type, result.type, text.type) == ("mcp_tool_use", "mcp_tool_result", "text")
    assert used.input == {"city": "Rome"}
    assert result.tool_use_id == used.id


@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner_beside_a_server_tool(
    client: anthropic.Anthropic, scripts: Scripts, stream: bool
) -> None:
    rang: list[int] = []

    @beta_tool
    def ring(times: int) -> str:
        """Rings a bell.

        Args:
            times: How often.
        """
        rang.append(times)
        return f"rang {times}"

    prompt = scripts.prompt(
        calls(call("lookup", city="Rome"), call("ring", times=2)), call("ring", times=3), "Done."
    )
    runner: Any = client.beta.messages.tool_runner(**asking(prompt), tools=[ring], stream=stream)
    messages = [each.get_final_message() for each in runner] if stream else list(runner)
    assert rang == [2, 3]
    assert messages[-1].content[0].text == "Done."
    last = scripts.requests[prompt][-1].messages
    results = [response.text for message in last for response in message.responses]
    assert results == ["sunny in Rome", "rang 2", "rang 3"]


class Weather(BaseModel):
    sky: str


def test_it_gets_a_typed_answer(client: anthropic.Anthropic, scripts: Scripts) -> None:
    prompt = scripts.prompt(calls(call("lookup", city="Rome"), text="Hm."), '{"sky": "clear"}')
    parsed = client.messages.parse(**asking(prompt), output_format=Weather)
    assert parsed.parsed_output == Weather(sky="clear")


def test_the_tokens_are_counted(client: anthropic.Anthropic) -> None:
    few = client.messages.count_tokens(
        model="claude-opus-5-5", messages=[{"role": "user", "content": "Hi."}]
    )
    many = client.messages.count_tokens(
        model="claude-opus-5-5", messages=[{"role": "user", "content": "Hi. " * 500}]
    )
    assert 0 < few.input_tokens < many.input_tokens - 400


def test_models_are_listed_and_shown(client: anthropic.Anthropic) -> None:
    assert [model.id for model in client.models.list()] == ["m", "claude-sonnet-5"]
    assert client.models.retrieve("claude-sonnet-5").display_name == "claude-sonnet-5"
    with pytest.raises(anthropic.NotFoundError, match="ghost"):
        client.models.retrieve("ghost")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError),
        (404, anthropic.NotFoundError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
    ],
)
def test_errors_are_the_sdks_own(
    client: anthropic.Anthropic, scripts: Scripts, status: int, error: type[Exception]
) -> None:
    prompt = scripts.prompt(*[refuse(status, "Not today.", retry_after=0)] * 9)
    with pytest.raises(error, match="Not today"):
        client.messages.create(**asking(prompt))


def test_a_wrong_key_is_an_authentication_error(serving: Serving) -> None:
    with (
        anthropic.Anthropic(base_url=serving.root_url, api_key="no", max_retries=0) as client,
        pytest.raises(anthropic.AuthenticationError),
    ):
        client.models.list()


def test_an_interrupted_stream_raises(client: anthropic.Anthropic, scripts: Scripts) -> None:
    prompt = scripts.prompt(cut(say("One two three four."), after=2))
    with pytest.raises(anthropic.APIError), client.messages.stream(**asking(prompt)) as stream:
        stream.get_final_message()
