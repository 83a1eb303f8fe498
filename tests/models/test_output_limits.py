"""A `max_tokens` that a service refuses is lowered to what it accepts, on every wire."""

from typing import Any

import pytest
from tests.support.model_wires import HELLO, Waits, text, turn

from windlass.errors import ModelError
from windlass.model import ModelRequest, Settings
from windlass.models.anthropic import AnthropicModel
from windlass.models.gemini import GeminiModel
from windlass.models.openai import OpenAIModel
from windlass.models.responses import ResponsesModel
from windlass.testing import FakeAnthropic, FakeGemini, FakeOpenAI, FakeResponses, refuse

OF_MODEL = "This model supports at most 3000 output tokens, whereas you asked for 128000."
OF_CONTEXT = (
    "This model's maximum context length is 4096 tokens. However, you requested 128500 tokens"
    " (500 in the messages, 128000 in the completion)."
)
WIRES: dict[str, Any] = {
    "openai": (FakeOpenAI, OpenAIModel, "gpt-test"),
    "responses": (FakeResponses, ResponsesModel, "gpt-test"),
    "anthropic": (FakeAnthropic, AnthropicModel, "claude-opus-4-5"),
    "gemini": (FakeGemini, GeminiModel, "gemini-2.5-flash"),
}
wires = pytest.mark.parametrize("wire", WIRES)
NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def limit_in(body: dict[str, Any]) -> int | None:
    """The limit of a request, whichever its name."""
    named = {**body, **body.get("generationConfig", {})}
    return next((named[name] for name in (*NAMES, "maxOutputTokens") if name in named), None)


def asking(limit: int | None, live: bool = True) -> ModelRequest:
    return ModelRequest(HELLO.messages, settings=Settings(max_tokens=limit), live=live)


async def sent(wire: str, limits: list[int | None], *steps: Any, live: bool = True) -> list[Any]:
    """The limits that the service receives when the model is asked with these ones."""
    fake_type, model_type, name = WIRES[wire]
    async with fake_type(list(steps)) as fake:
        model = model_type(name, base_url=fake.base_url, api_key="k", waiting=Waits())
        for limit in limits:
            assert text(await turn(model, asking(limit, live))) == "Hi"
        await model.aclose()
        return [limit_in(request.body) for request in fake.requests]


@wires
@pytest.mark.parametrize("live", [True, False])
async def test_the_limit_of_a_model_is_learned_once(wire: str, live: bool) -> None:
    steps = [refuse(400, OF_MODEL), "Hi", "Hi", "Hi"]
    assert await sent(wire, [128_000, 128_000, 7], *steps, live=live) == [128_000, 3000, 3000, 7]


@wires
async def test_the_context_left_by_a_prompt_counts_for_this_request_only(wire: str) -> None:
    steps = [refuse(400, OF_CONTEXT), "Hi", "Hi"]
    assert await sent(wire, [128_000, 9000], *steps) == [128_000, 3596, 9000]


async def test_anthropics_own_default_is_lowered_too() -> None:
    said = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease"
    assert await sent("anthropic", [None], refuse(400, said), "Hi") == [32_000, 10_000]


@wires
@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'max_tokens': integer below minimum value.",
        "This model supports at most 0 output tokens",
        "This model supports at most 200000 output tokens",
    ],
)
async def test_a_refusal_that_names_no_limit_is_raised(wire: str, message: str) -> None:
    fake_type, model_type, name = WIRES[wire]
    async with fake_type([refuse(400, message)]) as fake:
        model = model_type(name, base_url=fake.base_url, api_key="k", waiting=Waits())
        with pytest.raises(ModelError, match=message.partition(":")[0]):
            await turn(model, asking(128_000))
        await model.aclose()
        assert len(fake.requests) == 1


@wires
async def test_a_service_that_always_refuses_is_not_asked_forever(wire: str) -> None:
    fake_type, model_type, name = WIRES[wire]
    numbers = iter(range(9000, 0, -1))
    async with fake_type(
        lambda _: refuse(400, f"This model supports at most {next(numbers)} output tokens")
    ) as fake:
        model = model_type(name, base_url=fake.base_url, api_key="k", waiting=Waits())
        with pytest.raises(ModelError):
            await turn(model, asking(128_000))
        await model.aclose()
        assert len(fake.requests) == 3
