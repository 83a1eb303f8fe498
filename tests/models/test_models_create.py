"""Models by name: providers, keys, addresses."""

import subprocess
import sys
from typing import Any

import pytest
from tests.support.model_wires import HELLO, WEATHER, called, text, turn

from windlass.content import FunctionCall, FunctionResponse, Message
from windlass.errors import ConfigError
from windlass.events import ModelEvent, ToolCallEnded
from windlass.model import Model, ModelRequest
from windlass.models import PROVIDERS, Retry, Timeouts, create_model
from windlass.models.gemini import GeminiModel, VertexModel
from windlass.models.openai import OpenAIModel
from windlass.testing import FakeGemini, FakeOpenAI, call, calls


def test_each_provider_has_its_model() -> None:
    openai = create_model("openai/gpt-5-mini", api_key="k")
    gemini = create_model("gemini/gemini-2.5-flash", api_key="k")
    assert isinstance(openai, OpenAIModel)
    assert isinstance(gemini, GeminiModel)
    assert all(isinstance(model, Model) for model in (openai, gemini))
    assert (openai.name, gemini.name) == ("openai/gpt-5-mini", "gemini/gemini-2.5-flash")


def test_a_model_s_own_slashes_stay() -> None:
    model = create_model("openai/meta/llama-4", base_url="http://localhost:8000/v1")
    assert model.name == "openai/meta/llama-4"


@pytest.mark.parametrize("name", ["gpt-5", "", "/gpt-5", "openai/"])
def test_a_name_without_its_provider_says_what_to_write(name: str) -> None:
    with pytest.raises(ConfigError, match="provider/model, such as 'openai/"):
        create_model(name)


def test_an_unknown_provider_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"'azure'.*supported: aistudio, anthropic, gemini"
    ) as raised:
        create_model("azure/gpt-5")
    assert all(provider in str(raised.value) for provider in PROVIDERS)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/m", "OPENAI_API_KEY"),
        ("responses/m", "OPENAI_API_KEY"),
        ("gemini/m", "GEMINI_API_KEY"),
        ("vertex/m", "VERTEX_ACCESS_TOKEN"),
    ],
)
def test_a_missing_key_is_asked_for_by_its_variable(name: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        create_model(name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/m", "OPENAI_API_KEY"),
        ("responses/m", "OPENAI_API_KEY"),
        ("gemini/m", "GEMINI_API_KEY"),
        ("gemini/m", "GOOGLE_API_KEY"),
        ("vertex/m", "VERTEX_ACCESS_TOKEN"),
        ("vertex/m", "GOOGLE_ACCESS_TOKEN"),
    ],
)
def test_keys_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "from-the-environment")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    model: Any = create_model(name)
    assert "from-the-environment" in model._http.secrets
    given: Any = create_model(name, api_key="given")
    assert given._http.secrets == ["given"]


def test_the_gemini_key_goes_before_the_google_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "google")
    monkeypatch.setenv("GEMINI_API_KEY", "gemini")
    model: Any = create_model("gemini/m")
    assert model._http.secrets == ["gemini"]


def test_own_headers_may_carry_the_key() -> None:
    create_model("openai/m", headers={"Authorization": "Bearer x"})
    create_model("gemini/m", headers={"x-goog-api-key": "x"})
    with pytest.raises(ConfigError):
        create_model("openai/m", headers={"X-Title": "x"})


def test_a_server_of_one_s_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    create_model("openai/m", base_url="http://localhost:8000/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9000/v1")
    model: Any = create_model("openai/m")
    assert str(model._url) == "http://localhost:9000/v1/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "official"),
    [
        (None, True),
        ("https://api.openai.com/v1/", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://me.openai.azure.com/openai/v1", True),
        ("https://openrouter.ai/api/v1", False),
        ("https://notapi.openai.com.example/v1", False),
    ],
)
def test_which_hosts_are_openai_s_own(base_url: str | None, official: bool) -> None:
    model = OpenAIModel("m", base_url=base_url, api_key="k")
    assert model._encoder._official is official


def test_vertex_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def address(**options: Any) -> str:
        return str(VertexModel(options.pop("model", "m"), api_key="t", **options)._url)

    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_PROJECT"):
        address()
    tail = "/publishers/google/models/m:generateContent"
    root = "aiplatform.googleapis.com/v1/projects/p/locations"
    assert address(project="p") == f"https://{root}/global{tail}"
    assert address(project="p", location="us-east1") == f"https://us-east1-{root}/us-east1{tail}"
    assert address(project="p", location="eu").startswith(
        "https://aiplatform.eu.rep.googleapis.com/"
    )
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "q")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "asia-east1")
    assert "/projects/q/locations/asia-east1/" in address()
    whole = "projects/x/locations/global/publishers/google/models/m"
    assert f"/v1/{whole}:generateContent" in address(model=whole)


def test_gemini_addresses() -> None:
    tuned = GeminiModel("tunedModels/mine", api_key="k")
    assert tuned._url.path == "/v1beta/tunedModels/mine:generateContent"
    plain = GeminiModel("gemini-2.5-flash", api_key="k")
    base = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash"
    assert str(plain._url) == f"{base}:generateContent"
    assert str(plain._stream_url) == f"{base}:streamGenerateContent?alt=sse"


def test_time_outs_and_retries_are_passed_on() -> None:
    model: Any = create_model("openai/m", api_key="k", timeout=5)
    assert model._http._timeouts.read == 5
    model = create_model("openai/m", api_key="k", timeout=Timeouts(1, 2), retry=Retry(attempts=1))
    assert model._http._timeouts == Timeouts(1, 2)
    assert model._waiting()._retry == Retry(attempts=1)


@pytest.mark.process
def test_importing_the_models_imports_no_http_library() -> None:
    code = (
        "import sys, windlass.models, windlass.wires.chat.write_request;"
        "import windlass.wires.gemini.write_request;"
        "print({'aiohttp', 'httptools', 'yarl'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


# Whole exchanges with strict fakes, which refuse what the services would refuse.


def history(asked: list[ModelEvent]) -> tuple[Message, ...]:
    """The conversation after a turn of calls, as the loop would continue it."""
    made = tuple(event.call for event in asked if isinstance(event, ToolCallEnded))
    results = [FunctionResponse(c.name, {"output": "sunny"}, c.id) for c in made]
    return (*HELLO.messages, Message("assistant", made), Message.tool(results))


async def converse(model: Model, live: bool) -> str:
    first = await turn(model, ModelRequest(HELLO.messages, (WEATHER,), live=live))
    assert called(first) == [("get_weather", '{"city":"Paris"}')] * 2
    second = await turn(model, ModelRequest(history(first), (WEATHER,), live=live))
    await model.aclose()
    return text(second)


def script(body: Any) -> Any:
    turns = body.get("messages") or body["contents"]
    asked = call("get_weather", city="Paris")
    return "It is sunny." if len(turns) > 1 else calls(asked, asked)


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro"])
@pytest.mark.parametrize("ids", [True, False])
async def test_a_tool_round_with_gemini(live: bool, model: str, ids: bool) -> None:
    async with FakeGemini(script, ids=ids) as fake:
        made = create_model(f"gemini/{model}", base_url=fake.base_url, api_key="k")
        assert await converse(made, live) == "It is sunny."


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro"])
async def test_a_tool_round_with_vertex(live: bool, model: str) -> None:
    async with FakeGemini(script) as fake:
        made = VertexModel(model, base_url=fake.base_url, api_key="t", project="p")
        assert await converse(made, live) == "It is sunny."


@pytest.mark.parametrize("live", [True, False])
async def test_a_tool_round_with_openai(live: bool) -> None:
    async with FakeOpenAI(script) as fake:
        made = create_model("openai/gpt-5", base_url=fake.base_url)
        assert await converse(made, live) == "It is sunny."


@pytest.mark.parametrize("signatures", [True, False])
async def test_a_conversation_that_began_elsewhere_continues_with_gemini_3(
    signatures: bool,
) -> None:
    foreign = FunctionCall("get_weather", '{"city":"Paris"}', "call_openai_id")
    messages = (
        *HELLO.messages,
        Message.assistant("Let me look.", foreign),
        Message.tool([FunctionResponse("get_weather", {"output": "sunny"}, foreign.id)]),
    )
    async with FakeGemini("Sunny.", signatures=signatures) as fake:
        model = create_model("gemini/gemini-3-pro", base_url=fake.base_url, api_key="k")
        assert text(await turn(model, ModelRequest(messages, (WEATHER,)))) == "Sunny."
        await model.aclose()
