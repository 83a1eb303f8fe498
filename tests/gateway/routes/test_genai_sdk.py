"""The official `google-genai` SDK, unchanged, against the gateway."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel
from tests.support.serving import Serving, config_of

from windlass import tool
from windlass.content import InlineData, Text, Usage
from windlass.gateway.config import KeyConfig, ModelConfig, ServerConfig
from windlass.gateway.config.keys import new_key
from windlass.model import ModelRequest
from windlass.models import create_model
from windlass.testing import (
    FakeGemini,
    FakeOpenAI,
    Gate,
    ScriptedModel,
    Step,
    Turn,
    call,
    calls,
    cut,
    refuse,
    say,
    think,
)
from windlass.testing.script import Stepper

pytestmark = pytest.mark.sdk

KEY, HASH = new_key()
NAMES = ("scripted", "openai", "gemini")


@tool
def lookup(city: str) -> str:
    """Looks a city up."""
    return f"sunny in {city}"


class Door:
    """The gate at which the tool `hold` waits; each test has a new one."""

    gate = Gate()


@tool
async def hold() -> str:
    """Waits until the test lets it go."""
    await Door.gate.passed()
    return "held"


class Stage:
    """A gateway over a scripted model and both fake services; every test sets the script."""

    def __init__(self) -> None:
        self.plays()

    def plays(self, *steps: Step) -> None:
        self._stepper: Stepper[Any] = Stepper(steps)
        self.requests: list[Any] = []

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        return self._stepper.next(request)

    def last_messages(self) -> Any:
        request = self.requests[-1]
        assert isinstance(request, ModelRequest)
        return request.messages


@pytest.fixture(scope="module")
def stage() -> Stage:
    return Stage()


@pytest.fixture(scope="module")
def serving(stage: Stage) -> Iterator[Serving]:
    with FakeOpenAI(stage) as openai, FakeGemini(stage) as gemini:
        models = {
            "scripted": ScriptedModel(stage),
            "openai": create_model("openai/gpt-x", base_url=openai.base_url, api_key="k"),
            "gemini": create_model("gemini/gemini-3-pro", base_url=gemini.base_url, api_key="k"),
        }
        config = config_of(
            *(
                ModelConfig(name=name, target=model.name, tools=("lookup", "hold"))
                for name, model in models.items()
            ),
            keys=(KeyConfig(name="web", hash=HASH),),
            server=ServerConfig(heartbeat=0.05, access_log=False),
        )
        with Serving(config, models=models, tools=[lookup, hold]) as serving:
            yield serving


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[genai.Client]:
    with client_of(serving) as client:
        yield client


def client_of(serving: Serving, key: str = KEY, **options: Any) -> genai.Client:
    return genai.Client(
        api_key=key, http_options=types.HttpOptions(base_url=serving.root_url, **options)
    )


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest, stage: Stage) -> str:
    stage.plays()
    return request.param


def ring(times: int) -> str:
    """Rings a bell."""
    return f"rang {times}"


def config(**fields: Any) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(**fields)


# One answer.


def test_an_answer(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays(say("Hello, you.", usage=Usage(7, 3, 10)))
    answer = client.models.generate_content(model=model, contents="Hi!")
    assert answer.text == "Hello, you."
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    assert answer.usage_metadata is not None
    assert answer.usage_metadata.total_token_count == 10
    assert answer.model_version == model
    assert answer.response_id


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
async def test_the_async_client_gets_the_same(serving: Serving, stage: Stage, model: str) -> None:
    stage.plays("Hello.", "One two.")
    with client_of(serving) as whole_client:
        async with whole_client.aio as client:
            answer = await client.models.generate_content(model=model, contents="Hi!")
            assert answer.text == "Hello."
            chunks = await client.models.generate_content_stream(model=model, contents="Hi!")
            assert "".join([chunk.text or "" async for chunk in chunks]) == "One two."


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_every_version_of_the_api(serving: Serving, stage: Stage, version: str) -> None:
    stage.plays("Hi.")
    with client_of(serving, api_version=version) as client:
        assert client.models.generate_content(model="scripted", contents="Hi!").text == "Hi."
        assert {each.name for each in client.models.list()} == {f"models/{name}" for name in NAMES}
        assert client.models.get(model="scripted").name == "models/scripted"


def test_vertex(serving: Serving, stage: Stage) -> None:
    stage.plays("Hi.", "One two.")
    options = types.HttpOptions(base_url=serving.root_url)
    with genai.Client(vertexai=True, api_key=KEY, http_options=options) as client:
        assert client.models.generate_content(model="scripted", contents="Hi!").text == "Hi."
        chunks = client.models.generate_content_stream(model="scripted", contents="Hi!")
        assert "".join(chunk.text or "" for chunk in chunks) == "One two."


def test_a_stream(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays(say("One two three.", usage=Usage(7, 3, 10)))
    chunks = list(client.models.generate_content_stream(model=model, contents="Count."))
    assert [chunk.text for chunk in chunks if chunk.text] == ["One ", "two ", "three."]
    assert chunks[-1].usage_metadata is not None
    assert chunks[-1].usage_metadata.total_token_count == 10
    ends = [chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates]
    assert ends == [None, None, None, types.FinishReason.STOP]


def test_settings_reach_the_model(client: genai.Client, stage: Stage) -> None:
    stage.plays("Hi.")
    asked = config(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=100,
        stop_sequences=["END"],
        seed=7,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        system_instruction="Be brief.",
        thinking_config=types.ThinkingConfig(thinking_budget=1024),
    )
    client.models.generate_content(model="scripted", contents="Hi!", config=asked)
    settings = stage.requests[0].settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 40)
    assert (settings.max_tokens, settings.stop, settings.seed) == (100, ("END",), 7)
    assert (settings.presence_penalty, settings.frequency_penalty) == (0.1, 0.2)
    assert settings.reasoning_effort == "low"
    assert stage.requests[0].messages[0].text == "Be brief."


def test_fields_of_google_reach_googles_model_only(client: genai.Client, stage: Stage) -> None:
    asked = config(
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                threshold=types.HarmBlockThreshold.BLOCK_NONE,
            )
        ],
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW),
        tools=[types.Tool(google_search=types.GoogleSearch())],
    )
    stage.plays("Hi.", "Hi.")
    client.models.generate_content(model="gemini", contents="Hi!", config=asked)
    body = stage.requests[0]
    assert body["safetySettings"][0]["threshold"] == "BLOCK_NONE"
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}
    assert {"googleSearch": {}} in body["tools"]
    client.models.generate_content(model="openai", contents="Hi!", config=asked)
    assert "safetySettings" not in stage.requests[1]
    assert stage.requests[1]["reasoning_effort"] == "low"
    assert "googleSearch" not in str(stage.requests[1]["tools"])


class Weather(BaseModel):
    city: str
    degrees: int


def test_a_structured_answer(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays(
        calls(call("lookup", city="Rome"), text="Let me see."), '{"city": "Rome", "degrees": 30}'
    )
    asked = config(response_mime_type="application/json", response_schema=Weather)
    answer = client.models.generate_content(model=model, contents="Weather?", config=asked)
    assert answer.parsed == Weather(city="Rome", degrees=30)


def test_thoughts_are_shown_on_request(client: genai.Client, stage: Stage) -> None:
    asked = config(thinking_config=types.ThinkingConfig(include_thoughts=True))
    stage.plays(think("Hm.", "Hi."), think("Hm.", "Hi."))
    shown = client.models.generate_content(model="scripted", contents="Hi!", config=asked)
    assert [(part.text, part.thought) for part in shown.parts or ()] == [
        ("Hm.", True),
        ("Hi.", None),
    ]
    hidden = client.models.generate_content(model="scripted", contents="Hi!")
    assert [part.text for part in hidden.parts or ()] == ["Hi."]


def test_an_image_goes_in_and_comes_out(client: genai.Client, stage: Stage) -> None:
    stage.plays(Turn(parts=(Text("Here:"), InlineData(b"\x89PNG2", "image/png"))))
    image = types.Part.from_bytes(data=b"\x89PNG1", mime_type="image/png")
    answer = client.models.generate_content(model="scripted", contents=["Draw.", image])
    assert stage.last_messages()[0].parts[1] == InlineData(b"\x89PNG1", "image/png")
    assert answer.parts is not None
    assert answer.parts[1].inline_data is not None
    assert answer.parts[1].inline_data.data == b"\x89PNG2"


def test_tokens_are_counted(client: genai.Client, stage: Stage, model: str) -> None:
    counted = client.models.count_tokens(model=model, contents="How many tokens is this?")
    assert counted.total_tokens
    assert stage.requests == []


# Tools.


def test_the_calls_of_server_tools_are_hidden(
    client: genai.Client, stage: Stage, model: str
) -> None:
    stage.plays(call("lookup", city="Rome"), "Sunny.")
    answer = client.models.generate_content(model=model, contents="Weather?")
    assert (answer.text, answer.function_calls) == ("Sunny.", None)
    assert answer.automatic_function_calling_history in (None, [])


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_functions_of_the_client_run_beside_server_tools(
    client: genai.Client, stage: Stage, model: str, streamed: bool
) -> None:
    stage.plays(
        call("lookup", city="Oslo"),
        calls(call("lookup", city="Rome"), call("ring", times=2)),
        calls(call("ring", times=3), call("ring", times=4)),
        "Done.",
        "Still done.",
    )
    chat = client.chats.create(model=model, config=config(tools=[ring]))
    if streamed:
        said = "".join(chunk.text or "" for chunk in chat.send_message_stream("Go."))
        later = "".join(chunk.text or "" for chunk in chat.send_message_stream("And?"))
    else:
        said, later = chat.send_message("Go.").text, chat.send_message("And?").text
    assert (said, later) == ("Done.", "Still done.")
    assert len(stage.requests) == 5
    told = facts(stage.requests[-1])
    assert told == [
        ("lookup", "Oslo"),
        "sunny in Oslo",
        ("lookup", "Rome"),
        ("ring", 2),
        "sunny in Rome",
        "rang 2",
        ("ring", 3),
        ("ring", 4),
        "rang 3",
        "rang 4",
    ]


def facts(request: Any) -> list[Any]:
    """The calls and results that a service received, in order."""
    if isinstance(request, ModelRequest):
        return [
            fact
            for message in request.messages
            for fact in (
                *((each.name, *json.loads(each.json).values()) for each in message.calls),
                *(each.response.get("output", each.response.get("result"))
                  for each in message.responses),
            )
        ]  # fmt: skip
    if "contents" in request:
        found: list[Any] = []
        for part in (part for content in request["contents"] for part in content["parts"]):
            if made := part.get("functionCall"):
                found.append((made["name"], *made["args"].values()))
            if result := part.get("functionResponse"):
                response = result["response"]
                found.append(response.get("output", response.get("result")))
        return found
    found = []
    for message in request["messages"]:
        for made in message.get("tool_calls") or ():
            arguments = json.loads(made["function"]["arguments"])
            found.append((made["function"]["name"], *arguments.values()))
        if message["role"] == "tool":
            content = message["content"]
            found.append(json.loads(content)["result"] if content.startswith("{") else content)
    return found


def test_a_forced_call_is_returned_to_the_client(
    client: genai.Client, stage: Stage, model: str
) -> None:
    stage.plays(call("ring", times=1))
    asked = config(
        tools=[ring],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["ring"]
            )
        ),
    )
    answer = client.models.generate_content(model=model, contents="Go.", config=asked)
    assert answer.function_calls is not None
    [made] = answer.function_calls
    assert (made.name, made.args) == ("ring", {"times": 1})
    assert made.id


def test_a_chat_keeps_its_history(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays("One two.", "Three.", "Four.")
    chat = client.chats.create(model=model)
    for _ in chat.send_message_stream("Count."):
        pass
    chat.send_message("Go on.")
    assert chat.send_message("Go on.").text == "Four."
    curated = [content.role for content in chat.get_history(curated=True)]
    assert curated.count("user") == 3
    request = stage.requests[-1]
    if isinstance(request, ModelRequest):
        assert [(each.role, each.text) for each in request.messages] == [
            ("user", "Count."),
            ("assistant", "One two."),
            ("user", "Go on."),
            ("assistant", "Three."),
            ("user", "Go on."),
        ]


# Waiting and failing.


class Watched(httpx2.SyncByteStream):
    """A response whose first heartbeat opens the gate."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[bytes]:
        for data in self._inner:
            if not data.strip():
                Door.gate.open()
            yield data

    def close(self) -> None:
        self._inner.close()


class WatchingTransport(httpx2.HTTPTransport):
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        response.stream = Watched(response.stream)
        return response


def test_heartbeats_do_not_break_a_stream(serving: Serving, stage: Stage) -> None:
    Door.gate = Gate()
    stage.plays(call("hold"), "Done.")
    with (
        httpx2.Client(transport=WatchingTransport(), trust_env=False) as http,
        client_of(serving, httpx_client=http) as client,
    ):
        chunks = client.models.generate_content_stream(model="scripted", contents="Go.")
        assert "".join(chunk.text or "" for chunk in chunks) == "Done."
    assert Door.gate.is_open


def test_a_wrong_key(serving: Serving) -> None:
    with client_of(serving, "wrong") as client, pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="scripted", contents="Hi!")
    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")


def test_an_unknown_model(client: genai.Client) -> None:
    with pytest.raises(errors.ClientError) as caught:
        client.models.generate_content(model="ghost", contents="Hi!")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    assert "ghost" in (caught.value.message or "")


def test_a_refusal_of_the_service(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays(refuse(400, "Not today."), refuse(400, "Not today."))
    for ask in (client.models.generate_content, client.models.generate_content_stream):
        with pytest.raises(errors.ClientError, match=r"Not today\."):
            list(ask(model=model, contents="Hi!"))


def test_a_stream_that_is_cut_raises(client: genai.Client, stage: Stage, model: str) -> None:
    stage.plays(cut("One two three.", 2))
    texts: list[str] = []
    with pytest.raises(errors.ServerError) as caught:
        for chunk in client.models.generate_content_stream(model=model, contents="Count."):
            texts.append(chunk.text or "")
    assert caught.value.code == 502
    assert "".join(texts).startswith("One ")
