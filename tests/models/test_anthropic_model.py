"""`anthropic/`: keys and headers, refusals that it learns from, turns that Anthropic pauses."""

from typing import Any

import pytest
from tests.support.model_wires import HELLO, WEATHER, Waits, end, text, thoughts, turn

from windlass import AsyncClient, Client, ConfigError, ModelError
from windlass.content import Message, Opaque, ProviderTool, Text, Usage
from windlass.model import ModelRequest, Settings
from windlass.models import create_model
from windlass.models.anthropic import AnthropicModel, corrected
from windlass.testing import FakeAnthropic, Turn, call, calls, refuse, say, think
from windlass.testing.anthropic_rules import AnthropicRules
from windlass.wires.messages.write_request import ModelTraits, traits_of

NEW = "claude-opus-5-5"


def get_weather(city: str) -> str:
    """Current weather."""
    return f"sunny in {city}"


async def headers_of(**options: Any) -> dict[str, str]:
    async with FakeAnthropic("Hi") as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url, **options)
        await turn(model)
        await model.aclose()
    (request,) = fake.requests
    assert request.path == "/v1/messages"
    return request.headers


async def test_a_key_is_sent_with_the_version() -> None:
    headers = await headers_of(api_key="key-1")
    assert headers["x-api-key"] == "key-1"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers


async def test_keys_and_addresses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-1")
    headers = await headers_of()
    assert headers["authorization"] == "Bearer token-1"
    assert "x-api-key" not in headers
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1")
    assert (await headers_of())["x-api-key"] == "key-1"
    async with FakeAnthropic("Hi") as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.base_url)
        model = create_model(f"anthropic/{NEW}")
        assert text(await turn(model)) == "Hi"
        await model.aclose()


def test_anthropic_s_own_service_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY"):
        create_model(f"anthropic/{NEW}")
    create_model(f"anthropic/{NEW}", base_url="http://localhost:1")
    create_model(f"anthropic/{NEW}", api_key=lambda: "later")
    assert create_model(f"anthropic/{NEW}", api_key="k").name == f"anthropic/{NEW}"


async def test_own_headers_replace_the_version() -> None:
    headers = await headers_of(api_key="k", headers={"Anthropic-Version": "2099-01-01"})
    assert headers["anthropic-version"] == "2099-01-01"


async def test_betas_of_a_request_are_in_a_header() -> None:
    async with FakeAnthropic("Hi") as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url)
        await turn(model, ModelRequest(HELLO.messages, extra={"anthropic_beta": ["a", "b"]}))
        await turn(model)
        await model.aclose()
    first, second = fake.requests
    assert first.headers["anthropic-beta"] == "a,b"
    assert "anthropic_beta" not in first.body
    assert "anthropic-beta" not in second.headers


async def test_an_overloaded_service_is_tried_again_after_its_own_time() -> None:
    waits = Waits(jitter=0.0)
    async with FakeAnthropic([refuse(529, retry_after=3), "Hi"]) as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url, waiting=waits)
        assert text(await turn(model)) == "Hi"
        await model.aclose()
    assert waits.seconds == [3]


def request_with(**settings: Any) -> ModelRequest:
    return ModelRequest(HELLO.messages, settings=Settings(**settings))


LEARNED: list[Any] = [
    pytest.param(
        "claude-opus-4-1",
        AnthropicRules(max_tokens=32_000, adaptive=False),
        request_with(max_tokens=64_000),
        lambda body: body["max_tokens"] == 32_000,
        id="the output limit",
    ),
    pytest.param(
        "claude-opus-4-6",
        AnthropicRules(sampling=False),
        request_with(temperature=0.5),
        lambda body: "temperature" not in body,
        id="sampling",
    ),
    pytest.param(
        "claude-opus-4-5",
        AnthropicRules(adaptive=True),
        request_with(reasoning_effort="high"),
        lambda body: body["thinking"] == {"type": "adaptive"},
        id="adaptive thinking",
    ),
    pytest.param(
        "claude-opus-4-6",
        AnthropicRules(adaptive=False),
        request_with(reasoning_effort="high"),
        lambda body: body["thinking"]["type"] == "enabled",
        id="thinking by budget",
    ),
    pytest.param(
        NEW,
        AnthropicRules(system_turns=False),
        ModelRequest((*HELLO.messages, Message.system("Be brief."))),
        lambda body: "system" in body,
        id="system turns",
    ),
]


@pytest.mark.parametrize(("model_name", "rules", "request_", "accepted"), LEARNED)
async def test_a_refusal_is_learned_from_once(
    model_name: str, rules: AnthropicRules, request_: ModelRequest, accepted: Any
) -> None:
    async with FakeAnthropic("Hi", rules=rules) as fake:
        model = AnthropicModel(model_name, base_url=fake.base_url, waiting=Waits())
        assert text(await turn(model, request_)) == "Hi"
        assert len(fake.requests) == 2
        assert text(await turn(model, request_)) == "Hi"
        assert len(fake.requests) == 3
        await model.aclose()
    assert not accepted(fake.requests[0].body)
    assert all(accepted(request.body) for request in fake.requests[1:])


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 9 > 5, which is the maximum",
        "`temperature` is deprecated for this model.",
        "role 'system' is not supported on this model",
        '"thinking.type.enabled" is not supported. Use "thinking.type.adaptive"',
    ],
)
async def test_a_refusal_that_stays_is_raised(message: str) -> None:
    async with FakeAnthropic(refuse(400, message)) as fake:
        model = AnthropicModel("claude-opus-4-5", base_url=fake.base_url, waiting=Waits())
        with pytest.raises(ModelError):
            await turn(model, request_with(reasoning_effort="high", max_tokens=9000))
        await model.aclose()
    assert len(fake.requests) <= 3


def test_other_refusals_do_not_change_later_requests() -> None:
    traits = traits_of(NEW)
    for message in (
        "prompt is too long: 9 tokens > 5 maximum",
        "messages.0: image exceeds 5 MB",
        "`temperature` and `top_p` cannot both be specified: not supported",
        "temperature: must be at most 1",
    ):
        assert corrected(traits, message) == traits
    assert corrected(ModelTraits(thinking="adaptive"), "`disabled` is not supported").thinking == (
        "none"
    )


async def test_thoughts_go_back_with_their_signature_in_a_run_with_tools() -> None:
    script = [
        think("Which city? ", calls(call("get_weather", city="Rome"), text="I look.")),
        think("Good.", say("Sunny.")),
        "You are welcome.",
    ]
    async with FakeAnthropic(script) as fake:  # it refuses changed signatures
        model = AnthropicModel(NEW, base_url=fake.base_url)
        client = AsyncClient(model)
        reply = await client.generate("Weather?", tools=[get_weather])
        assert reply.thoughts == "Which city? Good."
        again = await client.generate([*reply.messages, Message.user("Thanks")])
        assert again.text == "You are welcome."
        await client.aclose()
    _, second, third = (request.body["messages"] for request in fake.requests)
    assert [block["type"] for block in second[1]["content"]] == ["thinking", "text", "tool_use"]
    assert second[2]["content"][0]["content"] == "sunny in Rome"
    assert third[3]["content"][0]["thinking"] == "Good."


SEARCH = Opaque(
    "anthropic",
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
)
HOSTED = ModelRequest(
    HELLO.messages,
    tools=(
        WEATHER,
        ProviderTool("anthropic", {"type": "web_search_20250305", "name": "web_search"}),
    ),
)


async def test_a_paused_turn_is_continued_as_one_turn() -> None:
    script = [
        Turn(parts=(Text("I search. "), SEARCH), finish="pause_turn", usage=Usage(10, 5, 15)),
        Turn(parts=(Text("More. "), SEARCH), finish="pause_turn", usage=Usage(20, 5, 25)),
        calls(call("get_weather", city="Rome"), text="Done.", usage=Usage(30, 5, 35)),
    ]
    async with FakeAnthropic(script) as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url)
        events = await turn(model, HOSTED)
        await model.aclose()
    assert text(events) == "I search. More. Done."
    assert (end(events).finish, end(events).usage) == ("tool_calls", Usage(60, 15, 75))
    sent = [request.body["messages"] for request in fake.requests]
    assert [len(messages) for messages in sent] == [1, 2, 2]
    kinds = [block["type"] for block in sent[2][1]["content"]]
    assert kinds == ["text", "server_tool_use", "text", "server_tool_use"]


async def test_a_turn_that_always_pauses_ends() -> None:
    paused = Turn(parts=(SEARCH,), finish="pause_turn")
    async with FakeAnthropic(paused) as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url)
        events = await turn(model, HOSTED)
        await model.aclose()
    assert (end(events).finish, end(events).detail) == ("other", "pause_turn")
    assert len(fake.requests) == 21


async def test_every_stop_reason_of_claude_has_a_stop_reason_of_the_run() -> None:
    for finish, reason in (
        ("refusal", "content_filter"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "answer"),
        ("end_turn", "answer"),
    ):
        async with FakeAnthropic([say("x", finish=finish)]) as fake:
            client = AsyncClient(AnthropicModel(NEW, base_url=fake.base_url))
            assert (await client.generate("?")).stop_reason == reason
            await client.aclose()


def test_a_client_by_name_and_caching_without_it() -> None:
    with FakeAnthropic(["Hi", "Hi"]) as fake:
        with Client(f"anthropic/{NEW}", base_url=fake.base_url, api_key="k") as client:
            assert client.generate("Hello").text == "Hi"
        with Client(AnthropicModel(NEW, base_url=fake.base_url, caching=False)) as client:
            assert client.generate("Hello").text == "Hi"
    first, second = (request.raw for request in fake.requests)
    assert b"cache_control" in first
    assert b"cache_control" not in second


async def test_thoughts_are_streamed() -> None:
    async with FakeAnthropic([think("Hm, well.", "Yes.")]) as fake:
        model = AnthropicModel(NEW, base_url=fake.base_url)
        events = await turn(model)
        await model.aclose()
    assert (thoughts(events), text(events)) == ("Hm, well.", "Yes.")
