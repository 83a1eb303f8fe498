"""The table of docs/output.md: how each provider is asked for a value, on the fakes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.typed_answers import Point

from windlass import AsyncClient, ModelError, tool
from windlass.models import create_model
from windlass.testing import (
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    FakeResponses,
    ScriptedModel,
    call,
    refuse,
    say,
)

PAGE = Path(__file__).parents[2] / "docs" / "output.md"
FINAL = "final_answer"
JSON_FORMAT = '"format": {"type": "json_schema"'
ANSWER = '{"x": 1, "y": 2}'
PROVIDERS: dict[str, tuple[str, Any]] = {
    "OpenAI (`openai/`)": ("openai/gpt-test", FakeOpenAI),
    "OpenAI Responses (`responses/`)": ("responses/gpt-test", FakeResponses),
    "Claude 4.5 and later (`anthropic/`)": ("anthropic/claude-opus-4-5", FakeAnthropic),
    "earlier Claude (`anthropic/`)": ("anthropic/claude-3-5-haiku-latest", FakeAnthropic),
    "Gemini 3 and later (`gemini/`, `vertex/`)": ("gemini/gemini-3-pro", FakeGemini),
    "earlier Gemini (`gemini/`, `vertex/`)": ("gemini/gemini-2.5-flash", FakeGemini),
}


@tool
def price(item: str) -> float:
    """The price of an item."""
    return 12.5


def method_of(body: dict[str, Any]) -> str:
    written = json.dumps(body)
    if FINAL in json.dumps(body.get("tools", [])):
        return "tool"
    native = (
        "response_format",
        "output_config",
        "responseJsonSchema",
        '"format": {"type": "json_s',
    )
    if any(field in written for field in native):
        return "native"
    return "prompt" if "of this JSON Schema" in written else "none"


def answering(asked: list[str]) -> Any:
    def step(body: dict[str, Any]) -> Any:
        asked.append(method_of(body))
        if "12.5" not in json.dumps(body) and "price" in json.dumps(body.get("tools", [])):
            return call("price", item="rope")
        return call(FINAL, json.loads(ANSWER)) if asked[-1] == "tool" else say(ANSWER)

    return step


async def method_used(provider: str, *, live: bool, **options: Any) -> set[str]:
    target, fake = PROVIDERS[provider]
    asked: list[str] = []
    with fake(answering(asked)) as service:
        model = create_model(target, base_url=service.base_url, api_key="k")
        async with AsyncClient(model) as client:
            if live:
                async with client.stream("?", output=Point, **options) as stream:
                    async for _ in stream:
                        pass
                    reply = stream.reply
            else:
                reply = await client.generate("?", output=Point, **options)
    assert reply.output == Point(1, 2)
    assert [made.name for made in reply.calls] == ["price"] * bool(options.get("tools"))
    return set(asked)


def table() -> dict[str, list[str]]:
    """The rows of the table in the page: provider, method without tools, method with tools."""
    rows = re.findall(r"^\| (.+?) \| `(\w+)` \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    return {name: [alone, beside] for name, alone, beside in rows}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tools", [(), (price,)], ids=["alone", "with tools"])
async def test_auto_uses_the_method_in_the_table(provider: str, live: bool, tools: Any) -> None:
    expected = table()[provider][bool(tools)]
    assert await method_used(provider, live=live, tools=tools) == {expected}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("method", ["tool", "prompt"])
@pytest.mark.parametrize("tools", [(), (price,)], ids=["alone", "with tools"])
async def test_a_method_can_be_forced(provider: str, method: str, tools: Any) -> None:
    used = await method_used(provider, live=False, tools=tools, output_method=method)
    assert used == {method}


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if "earlier" not in name])
async def test_native_can_be_forced(provider: str) -> None:
    used = await method_used(provider, live=False, tools=(price,), output_method="native")
    assert used == {"native"}


REFUSALS = {
    "native": refuse(400, "response_format is not supported by this model"),
    "tool": refuse(400, "tools are not supported by this model"),
}


async def test_a_server_that_refuses_schemas_gets_a_tool_and_is_not_asked_again() -> None:
    asked: list[str] = []

    def step(body: dict[str, Any]) -> Any:
        asked.append(method_of(body))
        return REFUSALS["native"] if asked[-1] == "native" else call(FINAL, json.loads(ANSWER))

    with FakeOpenAI(step) as service:
        async with AsyncClient("openai/m", base_url=service.base_url, api_key="k") as client:
            for _ in range(2):
                assert (await client.generate("?", output=Point)).output == Point(1, 2)
    assert asked == ["native", "tool", "tool"]


async def test_a_server_without_schemas_and_tools_still_answers() -> None:
    def step(body: dict[str, Any]) -> Any:
        return REFUSALS.get(method_of(body)) or say(f"Here:\n```json\n{ANSWER}\n```\nDone.")

    with FakeOpenAI(step) as service:
        async with AsyncClient("openai/m", base_url=service.base_url, api_key="k") as client:
            reply = await client.generate("?", output=Point)
    assert (reply.output, reply.text) == (Point(1, 2), ANSWER)


async def test_emulated_tools_and_a_value_work_together() -> None:
    made = '<tool_call>\n{"name": "price", "arguments": {"item": "a"}}\n</tool_call>'
    model = ScriptedModel([say(made), say(ANSWER)])
    async with AsyncClient(model, mode="emulated") as client:
        reply = await client.generate("?", output=Point, tools=[price])
    assert (reply.output, [each.name for each in reply.calls]) == (Point(1, 2), ["price"])


class Page(ScriptedModel):
    """A model that refuses every schema, as the AI Studio page does."""

    structured_output = "never"


async def test_a_model_without_structured_output_never_gets_a_schema() -> None:
    model = Page([call(FINAL, x=1, y=2)])
    async with AsyncClient(model) as client:
        assert (await client.generate("?", output=Point)).output == Point(1, 2)
    assert model.requests[0].settings.response_schema is None


class Embedded(ScriptedModel):
    """A model whose runtime constrains it to a grammar."""

    structured_output = "grammar"


async def test_an_embedded_model_gets_the_schema_as_a_grammar_and_in_its_prompt() -> None:
    model = Embedded([say(ANSWER)])
    async with AsyncClient(model, mode="emulated") as client:
        assert (await client.generate("?", output=Point)).output == Point(1, 2)
    [request] = model.requests
    assert request.settings.response_schema is not None
    assert "of this JSON Schema" in request.messages[0].text


async def test_an_embedded_model_answers_after_its_first_round_of_tools() -> None:
    made = '{"name": "price", "arguments": {"item": "a"}}'
    model = Embedded([say(made), say(ANSWER)])
    async with AsyncClient(model, mode="emulated") as client:
        reply = await client.generate("?", output=Point, tools=[price])
    assert (reply.output, [each.name for each in reply.results]) == (Point(1, 2), ["price"])
    first, second = model.requests
    assert '"price"' in str(first.settings.response_schema).replace("'", '"')
    assert set(second.settings.response_schema or {}) >= {"properties"}
    assert "of this JSON Schema" in second.messages[0].text


async def test_another_error_of_the_service_is_raised() -> None:
    with FakeOpenAI([refuse(401, "wrong key")]) as service:
        async with AsyncClient("openai/m", base_url=service.base_url, api_key="k") as client:
            with pytest.raises(ModelError, match="wrong key"):
                await client.generate("?", output=Point)
